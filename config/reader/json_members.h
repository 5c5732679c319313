// One JSON object as its members, each value as its own JSON text: for who hands on what it does
// not look into. Strict JSON (RFC 8259), unlike configurations. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ds {

struct JsonMember {
  std::string name;
  std::string json;  // compact; numbers to the last digit as they were written
  bool is_string = false;
  std::string text;  // of a string
};

// The members in their order. DataError "place: what is wrong" for what is no object, no JSON or no
// UTF-8, for a number beyond fp64, and for a name that comes twice. Depth is not bounded, and costs
// no stack.
std::vector<JsonMember> json_members(std::string_view text, const std::string& place);

}  // namespace ds
