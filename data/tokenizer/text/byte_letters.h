// GPT-2's alphabet: each byte is written as a printable character, itself where it is one, else
// U+0100 and up. Vocabularies of byte-level BPE are written in it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ds {

std::string to_byte_letters(std::string_view bytes);
// The bytes that a written token stands for; nothing if it has characters that are no bytes.
std::optional<std::string> from_byte_letters(std::string_view letters);

}  // namespace ds
