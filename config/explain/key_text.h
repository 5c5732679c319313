// What there is to know of one key, from its catalogue entries, as lines that a person reads
// (pure): one line where all types, families and modes that have the key agree, one for each text
// where they differ.
#pragma once

#include <string>
#include <vector>

#include "config/catalogue.h"

namespace ds {

// Entries of the same path; at least one.
using KeyEntries = std::vector<const CatalogueEntry*>;

// "type is Adam or Muon"; empty where the key is always there.
std::string conditions_text(const KeyEntries& entries);

// Meaning, type, default and what the key does here; of a section its meaning.
std::string key_text(const KeyEntries& entries);

std::string type_of(const CatalogueEntry& entry);     // "number, >= 0"
std::string default_of(const CatalogueEntry& entry);  // "0.001", or what absence means

}  // namespace ds
