// Libraries: those that dslaunch and rankd are linked with, and those that a machine may have for
// features which this build lacks. The latter are opened as whoever will use them does, are asked
// for their versions, and whether they have the functions that will be called; nothing is started
// with them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/inventory/inventory.h"

namespace ds {

// What `rankd --inventory` says.
struct EngineFacts {
  std::string build_id;
  std::vector<LibraryFact> libraries;
  std::string onednn_isa;
  std::string vectors;
  bool bf16_products = false;
};
// Throws DataError for what no rankd prints.
EngineFacts parse_engine_facts(const std::string& json);

std::vector<LibraryFact> launcher_libraries();
std::vector<LibraryFact> optional_libraries();

}  // namespace ds
