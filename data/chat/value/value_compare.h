// Comparisons as Python makes them. A budget counts the steps; without one they are free.
#pragma once

#include "data/chat/value/value.h"

namespace ds::chat {

bool equal(Budget* budget, const Value& a, const Value& b);
// Fault for values that have no order.
bool less(Budget* budget, const Value& a, const Value& b);
// Whether both are one object, which Python's `is` asks.
bool same(const Value& a, const Value& b);

}  // namespace ds::chat
