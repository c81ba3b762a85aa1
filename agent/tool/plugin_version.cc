#include "agent/tool/plugin_version.h"

#include <elf.h>

#include <cstring>
#include <string_view>

#include "agent/yaml.h"

namespace berth::tool {

namespace {

constexpr std::size_t largest_plugin = 256 << 20;

// A record of the file, if all of it is there.
template <class T>
const T *at(const std::string &file, std::uint64_t offset, std::uint64_t count = 1) {
    if (offset > file.size() || count > (file.size() - offset) / sizeof(T) || offset % alignof(T) != 0)
        return nullptr;
    return reinterpret_cast<const T *>(file.data() + offset);
}

std::string_view name_at(const std::string &file, const Elf64_Shdr &strings, std::uint64_t offset) {
    if (strings.sh_offset > file.size() || strings.sh_size > file.size() - strings.sh_offset || offset >= strings.sh_size)
        return {};
    const char *begin = file.data() + strings.sh_offset + offset;
    return {begin, strnlen(begin, strings.sh_size - offset)};
}

}  // namespace

Result<std::uint32_t> plugin_version(const std::string &path) {
    const auto file = yaml::read_file(path, largest_plugin);
    if (!file)
        return Error{file.error()};
    const auto *header = at<Elf64_Ehdr>(*file, 0);
    if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64)
        return Error{"it is no plugin"};
    const auto *sections = at<Elf64_Shdr>(*file, header->e_shoff, header->e_shnum);
    for (std::size_t i = 0; sections != nullptr && i < header->e_shnum; ++i) {
        const Elf64_Shdr &table = sections[i];
        if (table.sh_type != SHT_DYNSYM || table.sh_link >= header->e_shnum)
            continue;
        const std::uint64_t count = table.sh_size / sizeof(Elf64_Sym);
        const auto *symbols = at<Elf64_Sym>(*file, table.sh_offset, count);
        for (std::uint64_t s = 0; symbols != nullptr && s < count; ++s) {
            const Elf64_Sym &symbol = symbols[s];
            if (name_at(*file, sections[table.sh_link], symbol.st_name) != "plugin_version" || symbol.st_shndx >= header->e_shnum)
                continue;
            const Elf64_Shdr &home = sections[symbol.st_shndx];
            if (const auto *value = at<std::uint32_t>(*file, home.sh_offset + (symbol.st_value - home.sh_addr)))
                return *value;
        }
    }
    return Error{"it does not say for which Slurm it was made"};
}

}  // namespace berth::tool
