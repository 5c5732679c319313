// Fuzzes files of torch.save: any bytes as a zip or a stream, and, after a first byte that is no
// beginning of those, as a bare pickle, whose opcodes a mutated zip's checksum would hide. What is
// accepted is gone through and every tensor copied.
#include <algorithm>

#include "core/torch/pickle_reader.h"
#include "core/torch/torch_file.h"
#include "tests/fuzz/one_input.h"

namespace {

constexpr uint8_t kBarePickle = 'p';

void copy_all(const ds::TorchFile& file, const ds::TorchValue& value) {
  if (const ds::TorchTensor* tensor = value.as_tensor()) {
    std::vector<std::byte> into(static_cast<size_t>(tensor->bytes()));
    file.copy(*tensor, 0, into);
  } else if (const ds::TorchList* list = value.as_sequence()) {
    for (const ds::TorchValue& item : list->items) copy_all(file, item);
  } else if (const ds::TorchDict* dict = value.as_dict()) {
    for (const auto& [key, item] : dict->items) copy_all(file, item);
    copy_all(file, dict->attributes);
  } else if (const ds::TorchRecord* record = value.as_record()) {
    for (const ds::TorchValue& item : record->arguments) copy_all(file, item);
    copy_all(file, record->state);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = ds::fuzz::bytes_of(data, size);
  ds::fuzz::expect_refusal_or_success([&] {
    if (size > 0 && *data == kBarePickle) {
      const ds::PickleSource source{.path = "/f.pt", .entry = {}, .bytes = bytes.subspan(1)};
      ds::ValueArena arena("/f.pt", ds::ValueArena::bytes_max_of(static_cast<int64_t>(size)));
      ds::TorchStorages storages;
      ds::PickleReader(source, arena, storages).read(0);
      return;
    }
    const ds::TorchFile file = ds::TorchFile::of_bytes("/f.pt", bytes);
    copy_all(file, file.root());
  });
  return 0;
}
