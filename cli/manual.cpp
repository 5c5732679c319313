#include "cli/manual.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <sstream>

namespace ds {
namespace {

// Text as roff has to see it to print it as it is.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool line_begins = out.empty() || out.back() == '\n';
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '`') {
      out += "\\(ga";
    } else if (c == '^') {
      out += "\\(ha";
    } else if (c == '~') {
      out += "\\(ti";
    } else {
      out += c;
    }
  }
  return out;
}

std::string upper(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

std::string head(const std::string& page, std::string_view summary, std::string_view version) {
  return fmt::format(".TH {} 1 \"\" \"dslaunch {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n",
                     upper(roff(page)), roff(version), roff(page), roff(summary));
}

std::string synopsis(const VerbOutline& verb) {
  std::string text = fmt::format(".B dslaunch {}\n", roff(verb.name));
  for (const OptionOutline& option : verb.options) {
    if (option.required)
      text += fmt::format(".B {}\n.I {}\n", roff(option.names.back()), roff(option.type));
  }
  for (const OptionOutline& place : verb.places) {
    const std::string name = roff(upper(place.names.front()));
    const char* const more = place.repeats ? " ..." : "";
    text += place.required ? fmt::format(".I {}{}\n", name, more)
                           : fmt::format(".RI [ {} ]{}\n", name, more);
  }
  return text + ".RI [ options ]\n";
}

// How an option is typed: "-n, --lines N".
std::string heading(const OptionOutline& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back("\\fB" + roff(name) + "\\fR");
  const std::string type = option.type.empty() ? "" : " \\fI" + roff(option.type) + "\\fR";
  return fmt::format("{}{}", fmt::join(names, ", "), type);
}

std::string entry(const OptionOutline& option) {
  std::string text = fmt::format(".TP\n{}\n{}", heading(option), roff(option.description));
  if (!option.choices.empty()) {
    text +=
        fmt::format("\n.br\nOne of {}.", roff(fmt::format("{}", fmt::join(option.choices, ", "))));
  }
  if (!option.default_value.empty())
    text += fmt::format("\n.br\nDefault: {}", roff(option.default_value));
  return text + "\n";
}

std::string entries(const VerbOutline& verb) {
  std::string text;
  if (!verb.places.empty()) text += ".SH ARGUMENTS\n";
  for (const OptionOutline& place : verb.places) text += entry(place);
  std::vector<std::string> groups;
  for (const OptionOutline& option : verb.options) {
    if (std::ranges::find(groups, option.group) == groups.end()) groups.push_back(option.group);
  }
  text += ".SH OPTIONS\n";
  for (const std::string& group : groups) {
    if (group != "Options") text += fmt::format(".SS {}\n", roff(group));
    for (const OptionOutline& option : verb.options) {
      if (option.group == group) text += entry(option);
    }
  }
  return text;
}

std::string examples(const std::vector<std::string>& lines) {
  std::string text = ".SH EXAMPLES\n.nf\n";
  for (const std::string& line : lines) text += roff(line) + "\n";
  return text + ".fi\n";
}

// A blank line ends a paragraph.
std::string paragraphs(const std::string& notes) {
  std::string text;
  std::istringstream lines(notes);
  for (std::string line; std::getline(lines, line);)
    text += (line.empty() ? ".PP" : roff(line)) + "\n";
  return text;
}

constexpr const char* kExitStatus =
    ".SH EXIT STATUS\n"
    "0 done, 1 training failed, 2 usage, 65 bad data, 66 input missing, 69 cluster unusable, 70 "
    "internal error,\n"
    "74 storage, 75 saved and wants to run again, 76 restarts or nodes used up, 77 validation "
    "failed,\n"
    "78 configuration, 124 time is up, 128+n signal n.\n";

}  // namespace

std::string manual_page(std::span<const VerbOutline> verbs, std::string_view version) {
  std::string text =
      head("dslaunch", "train neural networks from one DeepSpeed JSON file", version);
  text +=
      ".SH SYNOPSIS\n"
      ".B dslaunch\n.RB [ run ]\n.I train.json\n.RI [ key.path=value\\~... ]\n.RI [ options "
      "]\n.br\n"
      ".B dslaunch\n.I verb\n.RI [ options ]\n"
      ".SH VERBS\n";
  std::vector<std::string> pages;
  for (const VerbOutline& verb : verbs) {
    text += fmt::format(".TP\n.B {}\n{}\n", roff(verb.name), roff(verb.summary));
    pages.push_back(fmt::format(".BR dslaunch\\-{} (1)", roff(verb.name)));
  }
  text +=
      ".SH OPTIONS\n.TP\n\\fB\\-\\-help\\fR\nThe list of verbs; behind a verb, its help\n"
      ".TP\n\\fB\\-\\-version\\fR\nVersion, commit and what is built in\n";
  text += examples({"dslaunch examples/kjv/train.json",
                    "dslaunch generate runs/latest --prompt \"In the beginning\"",
                    "dslaunch status runs/latest", "dslaunch run --help"});
  return fmt::format("{}{}.SH SEE ALSO\n{}\n", text, kExitStatus, fmt::join(pages, ",\n"));
}

std::string manual_page(const VerbOutline& verb, std::string_view version) {
  std::string text = head("dslaunch-" + verb.name, verb.summary, version);
  text += ".SH SYNOPSIS\n" + synopsis(verb);
  if (!verb.notes.empty()) text += ".SH DESCRIPTION\n" + paragraphs(verb.notes);
  return text + entries(verb) + examples(verb.examples) + kExitStatus +
         ".SH SEE ALSO\n.BR dslaunch (1)\n";
}

}  // namespace ds
