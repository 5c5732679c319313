// Text of others on its way to a terminal: names of files and hosts, values of configurations,
// what ranks, remote hosts and models say. A terminal obeys control characters, so each is shown
// instead: what is printed moves no cursor, sets no title, erases nothing and hides nothing.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace ds {

// The text with control characters other than newline and tab (C0, DEL, C1) and those that turn
// the direction of reading (U+202A-202E, U+2066-2069) as "\u001b", and bytes that are no UTF-8 as
// U+FFFD (pure). Of JSON it makes JSON that says the same.
std::string terminal_text(std::string_view text);

// How many columns of a terminal a text of one line takes at most (pure): two for each character
// that is drawn wide (East Asian scripts, pictures), one for each other. Accents on their own are
// drawn narrower than that.
size_t columns_of(std::string_view text);

// The beginning of a text of one line that fits into `columns`, whole characters (pure).
std::string_view fitting(std::string_view text, size_t columns);

// fmt::print(), of a terminal_text().
template <class... Args>
void say(std::FILE* to, fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(to, "{}", terminal_text(fmt::format(format, std::forward<Args>(args)...)));
}
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say(stdout, format, std::forward<Args>(args)...);
}

// What moves the cursor of a terminal because we want it to: nothing of others is in it that was
// not a terminal_text() before.
void steer_terminal(std::FILE* to, std::string_view sequence);

}  // namespace ds
