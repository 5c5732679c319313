// What a build has and what a machine offers it, as values: gathered by the other files of this
// folder, shown by inventory_text.h. What could not be found out has no value and says why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ds {

enum class FactUnit { kPlain, kBytes };

struct Fact {
  std::string key;  // "memory_available": the name in JSON, with blanks for people
  std::variant<std::monostate, bool, int64_t, std::string> value{};  // none: not known
  std::string note{};  // why it is not known, or what bounds it
  FactUnit unit = FactUnit::kPlain;
};

struct FactGroup {
  std::string key;
  std::vector<Fact> facts;
};

enum class LibraryUse { kBuiltIn, kUnused };

struct LibraryFact {
  std::string name;
  LibraryUse use = LibraryUse::kBuiltIn;
  std::optional<std::string> version{};  // none: it does not say
  std::string purpose{};
  // These three are set for an unused library only:
  std::string file{};      // where it was found
  std::string missing{};   // where it was not: what the loader said, and where to get it
  std::string unusable{};  // why nothing could be called of it: what it or the build lacks
};

struct InterfaceFact {
  std::string name;
  std::vector<std::string> addresses;
  std::optional<int64_t> megabits{};  // per second; virtual ones do not say
};

struct FeatureFact {
  std::string name;
  std::string needs;
  std::optional<bool> has;
  std::string how;  // to get it, or what is known instead
};

struct Inventory {
  std::vector<FactGroup> groups;
  std::vector<LibraryFact> libraries;
  std::vector<InterfaceFact> network;
  std::vector<FeatureFact> features;
  std::vector<std::string> missing_keys;  // of train.json, for which this build has no feature
};

}  // namespace ds
