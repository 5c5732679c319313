#include "launcher/report/terminal/screen_line.h"

#include <algorithm>
#include <cctype>

#include "cli/text/terminal_text.h"
#include "core/text/utf8.h"

namespace ds {
namespace {

std::string_view ellipsis(const ScreenLook& look) { return look.utf8 ? "\u2026" : "..."; }

// Each is a colour of the 256 whose contrast to black and to white is 3.8 or more.
std::string_view sequence_of(Ink ink) {
  switch (ink) {
    case Ink::kPlain:
      return "";
    case Ink::kBold:
      return "\033[1m";
    case Ink::kBar:
      return "\033[38;5;32m";
    case Ink::kGood:
      return "\033[38;5;28m";
    case Ink::kWarning:
      return "\033[38;5;130m";
    case Ink::kBad:
      return "\033[38;5;160m";
  }
  return "";
}

bool names_utf8(std::string locale) {
  std::ranges::transform(locale, locale.begin(), [](unsigned char c) { return std::toupper(c); });
  return locale.find("UTF-8") != std::string::npos || locale.find("UTF8") != std::string::npos;
}

}  // namespace

ScreenLook look_for(const Environment& environment, bool no_colour) {
  ScreenLook look;
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = value_in(environment, name);
    if (locale.empty()) continue;
    look.utf8 = names_utf8(locale);
    break;
  }
  const std::string terminal = value_in(environment, "TERM");
  look.colour = !no_colour && !terminal.empty() && terminal != "dumb";
  return look;
}

std::string one_line(std::string_view text) {
  std::string out = terminal_text(text);
  std::ranges::replace_if(
      out, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return out;
}

void ScreenLine::add(std::string_view text, Ink ink) {
  std::string shown = one_line(text);
  columns_ += columns_of(shown);
  parts_.push_back({std::move(shown), ink});
}

void ScreenLine::pad_to(size_t columns) {
  if (columns > columns_) add(std::string(columns - columns_, ' '));
}

std::string ScreenLine::text() const {
  std::string out;
  for (const Part& part : parts_) out += part.text;
  return out;
}

std::string ScreenLine::painted() const {
  std::string out;
  for (const Part& part : parts_) {
    const std::string_view sequence = sequence_of(part.ink);
    out += sequence;
    out += part.text;
    if (!sequence.empty()) out += "\033[0m";
  }
  return out;
}

std::string without_end(std::string_view text, size_t columns, const ScreenLook& look) {
  const std::string whole = one_line(text);
  if (columns_of(whole) <= columns) return whole;
  const std::string_view dots = fitting(ellipsis(look), columns);
  return std::string(fitting(whole, columns - columns_of(dots))) + std::string(dots);
}

std::string without_beginning(std::string_view text, size_t columns, const ScreenLook& look) {
  const std::string whole = one_line(text);
  size_t wide = columns_of(whole);
  if (wide <= columns) return whole;
  const std::string_view dots = fitting(ellipsis(look), columns);
  std::string_view rest = whole;
  while (wide > columns - columns_of(dots)) {
    const std::string_view first = rest.substr(0, first_character(rest).length);
    wide -= columns_of(first);
    rest.remove_prefix(first.size());
  }
  return std::string(dots) + std::string(rest);
}

std::vector<std::string> wrapped(std::string_view text, size_t most, const ScreenLook& look) {
  const std::string whole = one_line(text);
  std::string_view rest = whole;
  std::vector<std::string> lines;
  while (lines.size() + 1 < most && columns_of(rest) > look.columns) {
    const std::string_view fits = fitting(rest, look.columns);
    const bool at_blank = rest[fits.size()] == ' ';
    const size_t blank = at_blank ? fits.size() : fits.rfind(' ');
    const bool breaks = blank != std::string_view::npos && blank > 0;
    const std::string_view line = breaks ? rest.substr(0, blank) : fits;
    if (line.empty()) break;  // a screen that is narrower than a character
    lines.emplace_back(line);
    rest.remove_prefix(line.size() + (breaks ? 1 : 0));
  }
  if (!rest.empty() || lines.empty()) lines.push_back(without_end(rest, look.columns, look));
  return lines;
}

}  // namespace ds
