#include "core/files/hub_name.h"

#include <fmt/format.h>

#include <algorithm>

namespace ds {

namespace {

// What of the path is not there: "some-org/Some-7B" of "/home/me/some-org/Some-7B".
std::string missing_end(const FileSystem& files, const std::string& path) {
  size_t begin = path.size();
  while (begin > 0) {
    const size_t slash = path.rfind('/', begin - 1);
    if (slash == std::string::npos) return path;
    if (slash == 0 || files.exists(path.substr(0, slash))) return path.substr(slash + 1);
    begin = slash;
  }
  return path;
}

// A hub's names have an organization at most before them.
bool may_be_hub_name(const std::string& name) {
  return !name.empty() && std::ranges::count(name, '/') <= 1 && !name.starts_with('.') &&
         name.find("..") == std::string::npos && !name.ends_with(".json");
}

}  // namespace

std::string hub_advice(const FileSystem& files, const std::string& path, const std::string& what) {
  const std::string name = missing_end(files, path);
  const std::string asked = may_be_hub_name(name) ? name : "NAME";
  const std::string folder = may_be_hub_name(name) ? path : "DIR";
  return fmt::format(
      "a {} is a folder of this machine, and none is downloaded here; one of the Hugging Face hub "
      "comes with `hf download {} --local-dir {}` (`huggingface-cli download` in older releases)",
      what, asked, folder);
}

bool is_pickled(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".ckpt") ||
         (name.starts_with("pytorch_model") && name.ends_with(".bin"));
}

}  // namespace ds
