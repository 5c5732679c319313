// Variables of templates from JSON.
#pragma once

#include <rapidjson/document.h>

#include "data/chat/value/value.h"

namespace ds::chat {

// Keys keep their order, the last of equal ones counts; integers stay integers. Fault for an
// integer of more than 64 bits and for lists in lists beyond any use.
Value from_json(const rapidjson::Value& json);

}  // namespace ds::chat
