// What somebody may have meant who wrote a name that is not there (pure).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ds {

// The known name that was probably meant, "" when none is near: a slip of at most two letters
// first, then a name that has all the words of this one ("micro_batch_size" is
// "train_micro_batch_size_per_gpu"), then the nearest by edit distance.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

// The same for the values of an enumeration, which stand close together: one wrong letter in four.
std::string misspelt_name(std::string_view name, const std::vector<std::string>& known);

// The name among `known` that a key was meant to be, the letters' case aside: at most every fourth
// letter is wrong, and three in all (four of twenty or more), or the last ones are missing, four at
// most; "" when there is none.
std::string slip_of_key(std::string_view key, const std::vector<std::string>& known);

}  // namespace ds
