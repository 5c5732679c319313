// These functions find where in a configuration something stands that is to be complained about.
#pragma once

#include <string>
#include <string_view>

#include "config/field_reader.h"

namespace ds {

// Returns the origin of the key itself, or of the nearest section around it that is given; an
// origin without a source if there is none.
Origin origin_near(const Origins& origins, std::string_view path);

// What a layer says that knows no places: "aio.block_size: 5, expected a multiple of 4096".
struct KeyMessage {
  std::string key;  // empty where the message begins with none
  std::string what;
};
KeyMessage split_key(std::string_view message);

}  // namespace ds
