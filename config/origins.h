// Where in a configuration something stands that is to be complained about.
#pragma once

#include <string_view>

#include "config/field_reader.h"

namespace ds {

// Of the key itself, or of the nearest section around it that is given; without a source where
// there is none.
Origin origin_near(const Origins& origins, std::string_view path);

}  // namespace ds
