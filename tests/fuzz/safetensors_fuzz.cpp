// Fuzzes the safetensors reader: any bytes as a file, every tensor of an accepted one read.
#include "model/hf/safetensors.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ds::MemoryFileSystem fs;
  ds::fuzz::put(fs, "/f.safetensors", ds::fuzz::bytes_of(data, size));
  ds::fuzz::expect_refusal_or_success([&] {
    const ds::SafetensorsFile file = ds::SafetensorsFile::open(fs, "/f.safetensors");
    for (const std::string& name : file.names()) {
      std::vector<std::byte> into(static_cast<size_t>(file.info(name).bytes));
      file.read(name, into);
    }
  });
  return 0;
}
