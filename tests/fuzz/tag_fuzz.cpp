// Fuzzes tags, the hint file, and the file names of DeepSpeed checkpoints.
#include "checkpoint/deepspeed/names.h"
#include "checkpoint/tag.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  ds::fuzz::expect_refusal_or_success([&] {
    const auto tag = ds::tag_to_load(std::nullopt, ds::CheckpointKind::kRegular,
                                     [&](std::string_view) { return std::optional(text); });
    ds::check_tag(*tag);
    // What passes stays inside its folder.
    if (tag->find('/') != std::string::npos || *tag == ".." || tag->size() > 128) {
      throw ds::InternalError("unsafe tag " + *tag);
    }
  });
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  ds::deepspeed::natural_sort(names);
  ds::fuzz::expect_refusal_or_success([&] { ds::deepspeed::layout_from_names(names); });
  return 0;
}
