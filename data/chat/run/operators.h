// Operators between values, as Python has them.
#pragma once

#include "data/chat/run/context.h"
#include "data/chat/syntax/tree.h"

namespace ds::chat {

Value calculate(Context& context, Operator sign, const Value& left, const Value& right);
bool compare(Context& context, Operator sign, const Value& left, const Value& right);
bool contains(Context& context, const Value& whole, const Value& part);
Value negated(const Value& value);
Value positive(const Value& value);

// left % right of a text: Python's old formatting.
std::string percent_formatted(Context& context, const std::string& format, const Value& values);

}  // namespace ds::chat
