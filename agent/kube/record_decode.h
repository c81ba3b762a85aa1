// How each record is read from its parsed JSON; the Decoder parses, these pick. A record may come with fields set, which stay
// where the text says nothing. Pure; the parsed text must outlive the call only.
#pragma once

#include "agent/kube/json_fields.h"
#include "agent/kube/object.h"
#include "agent/kube/pod.h"
#include "agent/result.h"

namespace berth::kube {

Result<void> read(Json from, Pod &pod);
Result<void> read(Json from, Node &node);
// api_version and kind say how to read it where the text does not.
Result<void> read(Json from, Object &object);
Result<void> read(Json from, Claim &claim);

// What pods and the objects that own them have in common.
OwnerRef read_owner(Json metadata);             // the controlling one
KeyValues read_annotations(Json metadata);      // those that Berth keeps
KeyValues read_labels(Json metadata);           // likewise
KeyValues read_all(Json from, std::string_view key);  // a whole map of texts
std::int64_t read_time(std::string_view rfc3339);     // seconds since the epoch, 0 when it is none

// Null when the spec says nothing about places.
std::shared_ptr<const Placement> read_placement(Json spec);

}  // namespace berth::kube
