#include "core/libraries/library.h"

#include <dlfcn.h>
#include <fmt/ranges.h>
#include <link.h>

#include <utility>

#include "core/status/error.h"

namespace ds {
namespace {

std::string loader_error() {
  const char* const text = dlerror();
  return text != nullptr ? text : "the loader does not say why";
}

// The file that the loader took for a soname.
std::string file_of(void* handle, const std::string& soname) {
  link_map* map = nullptr;
  const bool asked = dlinfo(handle, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0;
  return asked && map != nullptr && *map->l_name != '\0' ? map->l_name : soname;
}

}  // namespace

Library::Library(LibraryKind kind) : kind_(std::move(kind)) {
  std::vector<std::string> refusals;
  for (const std::string& soname : kind_.sonames) {
    // All of its functions now, so that what it lacks itself is said here and does not end the
    // process later. Its code stays when the handle goes: libraries have functions called at exit.
    handle_ = dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle_ != nullptr) {
      file_ = file_of(handle_, soname);
      if (kind_.version != nullptr) version_ = kind_.version(*this);
      return;
    }
    // The loader's text begins with the name of the file that it is about, mostly this one.
    const std::string why = loader_error();
    refusals.push_back(why.starts_with(soname) ? why : fmt::format("{}: {}", soname, why));
  }
  throw Unsupported(
      fmt::format("{} could not be opened ({}); install {}, or name its folder in "
                  "LD_LIBRARY_PATH",
                  kind_.name, fmt::join(refusals, "; "), kind_.source));
}

Library::~Library() {
  if (handle_ != nullptr) dlclose(handle_);
}

Library::Library(Library&& other) noexcept
    : kind_(std::move(other.kind_)),
      handle_(std::exchange(other.handle_, nullptr)),
      file_(std::move(other.file_)),
      version_(std::move(other.version_)) {}

void* Library::address_of(FunctionName name) const { return dlsym(handle_, name); }

void* Library::require(FunctionName name) const {
  void* const found = address_of(name);
  if (found == nullptr) {
    throw Unsupported(fmt::format("{} {} ({}) has no function {}; install a newer one: {}",
                                  kind_.name, version_.value_or("of unknown version"), file_, name,
                                  kind_.source));
  }
  return found;
}

}  // namespace ds
