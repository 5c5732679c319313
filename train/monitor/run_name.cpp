#include "train/monitor/run_name.h"

#include <random>

#include "core/files/file.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";

bool is_name(std::string_view text, int length) {
  return text.size() == to_size(length) &&
         text.find_first_not_of(kLetters) == std::string_view::npos;
}

std::string random_name(int length) {
  std::random_device random;
  std::uniform_int_distribution<size_t> letter(0, kLetters.size() - 1);
  std::string name;
  for (int i = 0; i < length; ++i) name.push_back(kLetters[letter(random)]);
  return name;
}

}  // namespace

std::string run_name(const std::string& file, int length, RunNaming naming) {
  RealFileSystem files;
  constexpr int64_t kMost = 4096;
  if (naming == RunNaming::kKept && files.exists(file)) {
    std::string kept = files.read_text(file, kMost);
    if (kept.ends_with('\n')) kept.pop_back();
    if (is_name(kept, length)) return kept;
  }
  std::string name = random_name(length);
  files.make_directories(parent_directory(file));
  files.write_text_atomically(file, name + "\n");
  return name;
}

}  // namespace ds
