// YAML, under every file that an administrator or a user writes.
#include "agent/yaml.h"

#include "test/fuzz/fuzz.h"

using namespace berth;

namespace {

constexpr yaml::Limits limits{.bytes = 1 << 16, .nodes = 300, .depth = 8};

std::size_t walk(const yaml::Node &node, std::size_t depth) {
    fuzz::require(depth <= limits.depth, "depth is bounded");
    fuzz::require(node.line() > 0, "each value knows its line");
    const auto text = node.as_string();
    const auto flag = node.as_bool();
    const auto number = node.as_int();
    fuzz::require(text.ok() == node.is_scalar(), "scalars are texts");
    fuzz::require(!(flag && number), "no value is a number and a flag");
    (void)node.as_strings().ok();
    std::size_t count = 1;
    for (const yaml::Node &child : node.children()) {
        if (node.is_map())
            fuzz::require(node.find(child.key()) == &child, "no key stands twice", child.key());
        count += walk(child, depth + 1);
    }
    return count;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const auto tree = yaml::parse(fuzz::as_text(data, size), "x.yaml", limits);
    if (tree)
        fuzz::require(walk(*tree, 0) <= limits.nodes + 1, "values are bounded");
    else
        fuzz::require(tree.error().starts_with("x.yaml:") && tree.error().size() < 2000, "an error names file and line", tree.error());
    return 0;
}
