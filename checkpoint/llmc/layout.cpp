#include "checkpoint/llmc/layout.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "core/status/error.h"
#include "core/values/index.h"
#include "core/values/little_endian.h"

namespace ds::llmc {
namespace {

constexpr int32_t kGpt2Magic = 20240326, kLlama3Magic = 20240803, kStateMagic = 20240527;
constexpr int32_t kFp32Version = 3, kBf16Version = 5;  // 1 and 2 have no padded vocabulary

int32_t word(std::span<const std::byte> bytes, size_t index) {
  int32_t value = 0;
  std::memcpy(&value, bytes.data() + index * sizeof(value), sizeof(value));
  return value;
}

void require_header(const std::string& path, std::span<const std::byte> bytes) {
  if (std::ssize(bytes) >= kHeaderBytes) return;
  throw DataError(
      fmt::format("{}: has {} bytes, and a header has {}", path, bytes.size(), kHeaderBytes));
}

// A kind of tensor that each layer has one of.
struct Kind {
  std::string_view name;
  int64_t out = 1, in = 0;  // in widths; 0: it is a vector of `out` widths
};
constexpr std::array<Kind, 12> kKinds{{{"ln_1.weight"},
                                       {"ln_1.bias"},
                                       {"attn.c_attn.weight", 3, 1},
                                       {"attn.c_attn.bias", 3},
                                       {"attn.c_proj.weight", 1, 1},
                                       {"attn.c_proj.bias"},
                                       {"ln_2.weight"},
                                       {"ln_2.bias"},
                                       {"mlp.c_fc.weight", 4, 1},
                                       {"mlp.c_fc.bias", 4},
                                       {"mlp.c_proj.weight", 1, 4},
                                       {"mlp.c_proj.bias"}}};

// Puts places one behind the other.
class Row {
 public:
  void add(const std::string& name, const Shape& shape, int64_t size, bool is_transposed = false) {
    places_.emplace(
        "transformer." + name,
        Place{.begin = end_, .size = size, .shape = shape, .is_transposed = is_transposed});
    end_ += size;
  }
  void add(const std::string& name, const Shape& shape) { add(name, shape, shape.numel()); }
  int64_t end() const { return end_; }
  std::map<std::string, Place> take() { return std::move(places_); }

 private:
  std::map<std::string, Place> places_;
  int64_t end_ = 0;
};

Row row_of(const ModelHeader& h) {
  Row row;
  row.add("wte.weight", {h.vocabulary, h.width}, h.table_rows * h.width);
  row.add("wpe.weight", {h.positions, h.width});
  for (const Kind& kind : kKinds) {
    for (int64_t layer = 0; layer < h.layers; ++layer) {
      const std::string name = fmt::format("h.{}.{}", layer, kind.name);
      const int64_t out = kind.out * h.width, in = kind.in * h.width;
      if (in == 0) {
        row.add(name, {out});
      } else {
        row.add(name, {in, out}, in * out, true);
      }
    }
  }
  row.add("ln_f.weight", {h.width});
  row.add("ln_f.bias", {h.width});
  return row;
}

}  // namespace

bool is_model(std::span<const std::byte> bytes) {
  if (std::ssize(bytes) < kHeaderBytes) return false;
  return word(bytes, 0) == kGpt2Magic || word(bytes, 0) == kLlama3Magic;
}

ModelHeader model_header(const std::string& path, std::span<const std::byte> bytes) {
  require_header(path, bytes);
  if (word(bytes, 0) == kLlama3Magic) {
    throw Unsupported(fmt::format("{}: a Llama 3 of llm.c is not read, a GPT-2 is", path));
  }
  if (word(bytes, 0) != kGpt2Magic) throw DataError(fmt::format("{}: is no model of llm.c", path));
  const int32_t version = word(bytes, 1);
  if (version != kFp32Version && version != kBf16Version) {
    throw Unsupported(fmt::format(
        "{}: is of version {}, and versions {} (fp32) and {} (bf16) are read; llm.c's newer "
        "train_gpt2.py writes those",
        path, version, kFp32Version, kBf16Version));
  }
  const ModelHeader header{.positions = word(bytes, 2),
                           .vocabulary = word(bytes, 3),
                           .layers = word(bytes, 4),
                           .heads = word(bytes, 5),
                           .width = word(bytes, 6),
                           .table_rows = word(bytes, 7),
                           .dtype = version == kFp32Version ? DType::kF32 : DType::kBF16};
  constexpr int64_t kMostRows = 1 << 24, kMostLayers = 1 << 12, kMostWidth = 1 << 18;
  const auto require = [&](const char* name, int64_t value, int64_t most) {
    if (value >= 1 && value <= most) return;
    throw DataError(fmt::format("{}: says {} {}, expected 1 to {}", path, value, name, most));
  };
  require("positions", header.positions, kMostRows);
  require("tokens", header.vocabulary, kMostRows);
  require("rows of the table of tokens", header.table_rows, kMostRows);
  require("layers", header.layers, kMostLayers);
  require("heads", header.heads, kMostWidth);
  require("channels", header.width, kMostWidth);
  if (header.table_rows < header.vocabulary || header.width % header.heads != 0) {
    throw DataError(fmt::format("{}: says {} rows for {} tokens, and {} heads of {} channels", path,
                                header.table_rows, header.vocabulary, header.heads, header.width));
  }
  return header;
}

StateHeader state_header(const std::string& path, std::span<const std::byte> bytes) {
  require_header(path, bytes);
  constexpr int32_t kVersion = 1, kMostRanks = 1 << 16;
  if (word(bytes, 0) != kStateMagic || word(bytes, 1) != kVersion) {
    throw DataError(
        fmt::format("{}: is no state of llm.c's optimizer, of version {}", path, kVersion));
  }
  const StateHeader header{.ranks = word(bytes, 2),
                           .rank = word(bytes, 3),
                           .step = word(bytes, 10),
                           .has_masters = word(bytes, 4) == 1,
                           .has_order = word(bytes, 5) != 0};
  if (header.ranks < 1 || header.ranks > kMostRanks || header.rank < 0 ||
      header.rank >= header.ranks || header.step < 0) {
    throw DataError(fmt::format("{}: says rank {} of {}, at step {}", path, header.rank,
                                header.ranks, header.step));
  }
  return header;
}

bool is_order(std::span<const std::byte> bytes, int64_t at) {
  constexpr int64_t kGeneratorBytes = 8 + 4 + 4 + 4 * 624 + 2 * 4;
  const int64_t size = std::ssize(bytes);
  for (int list = 0; list < 2; ++list) {
    constexpr int64_t kCountBytes = sizeof(uint64_t), kIndexBytes = sizeof(int32_t);
    if (at < 0 || size - at < kCountBytes) return false;
    const auto count = little_endian<uint64_t>(bytes, to_size(at));
    at += kCountBytes;
    if (count > static_cast<uint64_t>((size - at) / kIndexBytes)) return false;
    at += static_cast<int64_t>(count) * kIndexBytes;
  }
  return size - at == kGeneratorBytes;
}

int64_t Place::stored_index(int64_t element) const {
  if (!is_transposed) return element;
  const int64_t in = shape[0], out = shape[1];
  return element % out * in + element / out;
}

std::map<std::string, Place> places_of(const ModelHeader& header) { return row_of(header).take(); }

int64_t element_count(const ModelHeader& header) {
  const int64_t width = header.width;
  int64_t of_layer = 0;
  for (const Kind& kind : kKinds)
    of_layer += kind.out * width * (kind.in == 0 ? 1 : kind.in * width);
  return (header.table_rows + header.positions + 2) * width + header.layers * of_layer;
}

}  // namespace ds::llmc
