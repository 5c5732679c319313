// Fuzzes the configuration: any bytes either give ConfigError or a Config whose canonical text
// reads back to the same text. Nothing may crash, hang or leak.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config/explain/explain.h"
#include "config/load.h"
#include "config/reader/json_reader.h"
#include "core/status/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    ds::ReadConfig read = ds::read_config_tree(ds::read_config_document(text, "fuzz"));
    ds::explain_text(read, 2);
    if (read.problems.has_errors()) return 0;
    const std::string canonical = ds::to_config_text(read.config);
    if (ds::to_config_text(ds::parse_config(canonical)) != canonical) std::abort();
  } catch (const ds::ConfigError&) {
    return 0;
  }
  return 0;
}
