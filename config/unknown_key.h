// What is said of a key that nobody knows (pure).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ds {

// What to say of a key that is not known in `section` ("" is the document): under which condition
// the section has it ("type is SGD or MuSGD"), in which other sections it stands, what it is called
// here that another trainer calls so, or the nearest of its `siblings`.
std::string unknown_key(std::string_view section, std::string_view key,
                        const std::vector<std::string>& siblings);

}  // namespace ds
