// value.name and value[key], as Jinja's sandbox looks them up. What begins with _ is never found
// but as a key of a dict.
#pragma once

#include "data/chat/run/context.h"

namespace ds::chat {

Value attribute_of(Context& context, const Value& value, std::string_view name);
Value item_of(Context& context, const Value& value, const Value& key);
// Bounds may be absent or none.
Value slice_of(Context& context, const Value& value, const Value& from, const Value& to,
               const Value& step);
// "a.b.0" as filters take it.
Value path_of(Context& context, const Value& value, const Value& path);

}  // namespace ds::chat
