// Pickles and files of torch.save for tests, opcode by opcode.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/files/zip_bytes.h"

namespace ds::testing::pickle {

inline std::string global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}

inline std::string text(std::string_view letters) {
  std::string made = "X";
  append_number(made, letters.size(), 4);
  return made + std::string(letters);
}

inline std::string integer(int32_t value) {
  std::string made = "J";
  append_number(made, static_cast<uint32_t>(value), 4);
  return made;
}

inline std::string integers(std::span<const int32_t> values) {
  std::string made = "(";
  for (const int32_t value : values) made += integer(value);
  return made + "t";
}

// Opcodes of one value, between the protocol and the end.
inline std::string whole(const std::string& value) { return "\x80\x02" + value + "."; }

inline std::string storage(std::string_view of_class, std::string_view id, int32_t numel) {
  return "(" + text("storage") + global("torch", of_class) + text(id) + text("cpu") +
         integer(numel) + "tQ";
}

struct View {
  std::vector<int32_t> shape;
  std::vector<int32_t> strides;
  int32_t offset = 0;
};

// `marks`: a seventh argument, which torch gives to what it has to change after it is made.
inline std::string tensor(const std::string& storage, const View& view,
                          const std::string& marks = "") {
  return global("torch._utils", "_rebuild_tensor_v2") + "(" + storage + integer(view.offset) +
         integers(view.shape) + integers(view.strides) + "\x89" +
         global("collections", "OrderedDict") + ")R" + marks + "tR";
}

inline std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string made = "}(";
  for (const auto& [key, value] : items) made += text(key) + value;
  return made + "u";
}

// A file of torch.save that has this value, and storages by their ids.
inline ZipBytes file(const std::string& value,
                     const std::vector<std::pair<std::string, std::string>>& storages = {}) {
  std::vector<ZipItem> items{{"m/data.pkl", whole(value)}, {"m/byteorder", "little"}};
  for (const auto& [id, bytes] : storages) items.push_back({"m/data/" + id, bytes});
  return ZipBytes(items);
}

}  // namespace ds::testing::pickle
