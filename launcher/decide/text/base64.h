// Bytes as text (pure): base64 in the URL-safe alphabet, padded. decode_base64 of
// config/reader/json_reader.h reads it back.
#pragma once

#include <string>
#include <string_view>

namespace ds {

std::string encode_base64(std::string_view bytes);

}  // namespace ds
