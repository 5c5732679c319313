// The options and words of each verb, read back from what the app was told of them: what completion
// and manual pages are made from.
#pragma once

#include <string>
#include <vector>

#include "cli/verb.h"

namespace ds {

// What stands behind an option or at a place, as far as a shell can complete it.
enum class ValueKind {
  kNone,
  kText,
  kChoice,
  kFile,
  kDirectory,
  kKey,        // of the configuration
  kFileOrKey,  // a configuration, or a key of any
  kKeyValue,   // key=value
};

struct OptionOutline {
  std::vector<std::string> names;  // "-n", "--lines"; of a place one name without dashes
  std::string type;                // "N", "FILE"; empty for a flag
  std::string description;
  std::string default_value;
  std::string group;  // "Options" unless it stands under a heading of its own
  ValueKind kind = ValueKind::kNone;
  std::vector<std::string> choices;
  bool required = false;
  bool repeats = false;
};

struct VerbOutline {
  std::string name;
  std::string summary;
  std::vector<OptionOutline> options;
  std::vector<OptionOutline> places;  // words without a name, in order
  std::vector<std::string> examples;  // command lines
  std::string notes;                  // what else its help says below the examples
};

VerbOutline outline(const Verb& verb);
std::vector<VerbOutline> outlines();  // of the listed verbs

}  // namespace ds
