#include "launcher/inventory/libraries.h"

#include <hwloc.h>
#include <openssl/crypto.h>

#include "config/reader/json_reader.h"
#include "core/libraries/gpu_libraries.h"
#include "core/status/error.h"

namespace ds {
namespace {

// "13.0" of 13000, as CUDA counts.
std::optional<std::string> driver_version(const Library& library) {
  const auto ask = library.find<int (*)(int*)>("cuDriverGetVersion");
  int number = 0;
  if (ask == nullptr || ask(&number) != 0) return std::nullopt;
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

LibraryFact look_for(const LibraryKind& kind) {
  LibraryFact fact{.name = kind.name, .use = LibraryUse::kUnused, .purpose = kind.purpose};
  try {
    const Library library(kind);
    fact.file = library.file();
    fact.version = library.version();
  } catch (const Unsupported& missing) {
    fact.missing = missing.what();
  }
  return fact;
}

LibraryFact look_for(GpuLibrary which) {
  LibraryFact fact = look_for(kind_of(which));
  if (!fact.missing.empty()) return fact;
  try {
    require_table(which);
    const std::string_view lacks = missing_of_build(which);
    if (!lacks.empty()) fact.unusable = fmt::format("{}: {}", fact.name, lacks);
  } catch (const Unsupported& lacking) {
    fact.unusable = lacking.what();
  }
  return fact;
}

const Value& member(const Value& object, std::string_view key, Value::Kind kind) {
  const Value* const found = object.find(key);
  if (found == nullptr || found->kind() != kind) {
    throw DataError(fmt::format("rankd --inventory: \"{}\" is missing or of another kind", key));
  }
  return *found;
}

}  // namespace

EngineFacts parse_engine_facts(const std::string& json) {
  const Value document = read_config_document(json, "rankd --inventory");
  EngineFacts out;
  out.build_id = member(document, "build_id", Value::Kind::kString).as_string();
  out.onednn_isa = member(document, "onednn_isa", Value::Kind::kString).as_string();
  out.vectors = member(document, "vectors", Value::Kind::kString).as_string();
  out.bf16_products = member(document, "bf16_products", Value::Kind::kBoolean).as_boolean();
  for (const Value& entry : member(document, "libraries", Value::Kind::kList).items()) {
    LibraryFact& fact = out.libraries.emplace_back();
    fact.name = member(entry, "name", Value::Kind::kString).as_string();
    fact.purpose = member(entry, "purpose", Value::Kind::kString).as_string();
    const Value* const version = entry.find("version");
    if (version != nullptr && version->is_string()) fact.version = version->as_string();
  }
  return out;
}

std::vector<LibraryFact> launcher_libraries() {
  const unsigned hwloc = hwloc_get_api_version();
  return {{.name = "OpenSSL",
           .version = OpenSSL_version(OPENSSL_VERSION_STRING),
           .purpose = "TLS between hosts"},
          {.name = "hwloc API",
           .version = fmt::format("{}.{}.{}", hwloc >> 16, hwloc >> 8 & 0xff, hwloc & 0xff),
           .purpose = "which cores belong together"}};
}

std::vector<LibraryFact> optional_libraries() {
  std::vector<LibraryFact> out = {look_for({.name = "CUDA driver",
                                            .purpose = "GPUs",
                                            .sonames = {"libcuda.so.1"},
                                            .source = "NVIDIA's driver",
                                            .version = driver_version})};
  for (const GpuLibrary which : kGpuLibraries) out.push_back(look_for(which));
  out.push_back(look_for({.name = "libaio",
                          .purpose = "offload to NVMe",
                          .sonames = {"libaio.so.1"},
                          .source = "libaio1 (apt)"}));
  out.push_back(look_for({.name = "liburing",
                          .purpose = "offload to NVMe",
                          .sonames = {"liburing.so.2"},
                          .source = "liburing2 (apt)"}));
  return out;
}

}  // namespace ds
