// What a credential program prints; base64 and times as they stand in such texts.
#include "agent/kube/base64.h"
#include "agent/kube/exec_plugin.h"
#include "test/fuzz/fuzz.h"

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string_view text = fuzz::as_text(data, size);
    const auto got = kube::parse_exec_credential(text, "client.authentication.k8s.io/v1");
    if (got) {
        fuzz::require(!got->token.empty() || !got->client_cert_pem.empty(), "a credential is one");
        fuzz::require(!fuzz::has_control(got->token), "a token fits into a header");
        fuzz::require(got->client_cert_pem.empty() == got->client_key_pem.empty(), "certificate and key come together");
    } else {
        fuzz::require_sentence(got.error(), 500);
    }
    (void)kube::parse_rfc3339(text);
    if (const auto bytes = kube::base64_decode(text))
        fuzz::require(kube::base64_decode(kube::base64_encode(*bytes)) == bytes, "base64 reads back as it was", text);
    const auto back = kube::base64_decode(kube::base64_encode(text));
    fuzz::require(back && *back == text, "base64 reads back as it was", text);
    return 0;
}
