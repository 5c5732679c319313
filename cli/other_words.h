// Words that other launchers and training scripts have, and what to write here instead (pure).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ds {

// For an option without its dashes and with - for _: "deepspeed-config". Nothing where no program
// that people come from has it.
std::optional<std::string> instead_of_option(std::string_view name);

// For a first word that is a verb elsewhere ("train"), or the script that is started there; `next`
// is the word behind it, or empty.
std::optional<std::string> instead_of_first_word(std::string_view word, std::string_view next);

}  // namespace ds
