// What a server says of itself and of our requests: API groups and resources, its version, and the Status of a refusal, on their way
// into paths, logs and JSON.
#include "agent/kube/discovery.h"

#include <jansson.h>

#include "agent/kube/decode.h"
#include "agent/kube/json_text.h"
#include "test/fuzz/fuzz.h"

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string body(fuzz::as_text(data, size));
    if (const auto groups = kube::read_api_groups(body); !groups)
        fuzz::require_sentence(groups.error(), 300);
    if (const auto resources = kube::read_api_resources(body))
        for (const auto &resource : *resources) {
            fuzz::require(!resource.name.empty() && resource.name.find('/') == std::string::npos, "no subresource is taken", resource.name);
            const std::string path = kube::resource_path("apps/v1", resource.name, "a/../b?c", "x y#%");
            fuzz::require(path.find("/../") == std::string::npos && path.find(' ') == std::string::npos, "a path goes nowhere else", path);
        }
    const int minor = kube::version_minor(body);
    (void)minor;
    const std::string message = kube::status_message(body);
    fuzz::require(message.size() <= 510 && !fuzz::has_control(message), "a server's message is fit for a log", message);

    const std::string quoted = kube::json_quote(body);
    json_error_t error;
    json_t *const parsed = json_loadb(quoted.data(), quoted.size(), JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    fuzz::require(json_is_string(parsed), "quoted text is JSON, whatever it was", quoted);
    json_decref(parsed);
    const std::string cut(kube::cut_utf8(body, 20));
    fuzz::require(cut.size() <= 20 && body.starts_with(cut), "a cut text is the beginning");
    return 0;
}
