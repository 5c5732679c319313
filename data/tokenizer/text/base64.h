// Base64 of RFC 4648, in which vocabularies write bytes that are no text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ds {

std::string to_base64(std::string_view bytes);
// The bytes; nothing for a text with other signs, or one that ends inside a byte. The signs "=" at
// the end may be left out.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace ds
