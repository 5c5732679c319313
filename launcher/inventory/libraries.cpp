#include "launcher/inventory/libraries.h"

#include <dlfcn.h>
#include <hwloc.h>
#include <link.h>
#include <openssl/crypto.h>

#include <array>

#include "config/reader/json_reader.h"
#include "core/error.h"

namespace ds {
namespace {

// "13.0" of 13000, as CUDA counts.
std::string cuda_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}
// "2.28.7" of 22807, as NCCL counts since 2.9.
std::string nccl_version(int number) {
  return fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
}

struct Optional {
  const char* name;
  const char* file;
  const char* purpose;
  const char* version_call = nullptr;  // int f(int* version), 0 for success
  std::string (*text)(int) = nullptr;
};

constexpr std::array kOptional{
    Optional{"CUDA driver", "libcuda.so.1", "GPUs", "cuDriverGetVersion", cuda_version},
    Optional{"CUDA runtime 13", "libcudart.so.13", "GPUs", "cudaRuntimeGetVersion", cuda_version},
    Optional{"CUDA runtime 12", "libcudart.so.12", "GPUs", "cudaRuntimeGetVersion", cuda_version},
    Optional{"NCCL", "libnccl.so.2", "collectives between GPUs", "ncclGetVersion", nccl_version},
    Optional{"cuFile", "libcufile.so.0", "GPUDirect storage"},
    Optional{"libaio", "libaio.so.1", "offload to NVMe"},
    Optional{"liburing", "liburing.so.2", "offload to NVMe"},
};

LibraryFact look_for(const Optional& wanted) {
  LibraryFact fact{.name = wanted.name, .use = LibraryUse::kUnused, .purpose = wanted.purpose};
  // Never closed: what drivers register at exit has to find itself in place.
  void* const handle = dlopen(wanted.file, RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    fact.missing = why != nullptr ? why : fmt::format("{} was not found", wanted.file);
    return fact;
  }
  link_map* map = nullptr;
  fact.file =
      dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : wanted.file;
  if (wanted.version_call == nullptr) return fact;
  const auto ask = reinterpret_cast<int (*)(int*)>(dlsym(handle, wanted.version_call));
  int number = 0;
  if (ask != nullptr && ask(&number) == 0) fact.version = wanted.text(number);
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
  std::vector<LibraryFact> out;
  for (const Optional& wanted : kOptional) out.push_back(look_for(wanted));
  return out;
}

}  // namespace ds
