// Fuzzes the texts of a checkpoint past their digests: index, manifest body and trailer.
#include "checkpoint/format.h"
#include "core/status/error.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto bytes = ds::fuzz::bytes_of(data + 1, size - 1);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ds::fuzz::expect_refusal_or_success([&] {
    if (data[0] % 3 == 0) {
      const ds::FileIndex index = ds::parse_index("/f", text);
      for (const ds::PieceInfo& piece : index.pieces) ds::runs_of(piece.region, piece.shape);
    } else if (data[0] % 3 == 1) {
      const std::string rest = ds::digest_of(std::as_bytes(std::span(text)));
      ds::parse_manifest("/f", "{\"digest\":\"" + rest + "\"," + text);
    } else if (bytes.size() >= ds::kTrailerBytes) {
      ds::parse_trailer("/f", bytes.first(ds::kTrailerBytes), static_cast<int64_t>(size));
    }
  });
  return 0;
}
