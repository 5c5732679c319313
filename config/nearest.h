// What somebody may have meant who wrote a name that is not there (pure).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ds {

// The known name that was probably meant, "" when none is near: a slip of at most two letters first,
// then a name that has all the words of this one ("micro_batch_size" is
// "train_micro_batch_size_per_gpu"), then the nearest by edit distance.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

// The same for the values of an enumeration, which stand close together: one wrong letter in four.
std::string misspelt_name(std::string_view name, const std::vector<std::string>& known);

// What to say of a key that is not known in `section` ("" is the document): under which condition the
// section has it ("type is SGD or MuSGD"), in which other sections it stands, what it is called here that
// another trainer calls so, or the nearest of its `siblings`.
std::string unknown_key(std::string_view section, std::string_view key,
                        const std::vector<std::string>& siblings);

}  // namespace ds
