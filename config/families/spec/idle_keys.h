// Keys of a config.json that say nothing about what a model computes: how transformers writes,
// generates and reports, and what belongs to other heads.
#pragma once

#include <rapidjson/document.h>

#include <string_view>

namespace ds {

// Whether this key is one of them, or is for a part that models here do not have and is off: false,
// 0, or empty.
bool is_idle_key(std::string_view key, const rapidjson::Value& value);

}  // namespace ds
