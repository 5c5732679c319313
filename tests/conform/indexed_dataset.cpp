// Area indexed_dataset: hexadecimal texts in and out of data/indexed_dataset.
#include "data/indexed_dataset.h"

#include <fmt/format.h>

#include <stdexcept>

#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"

namespace ds::conform {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(const std::string& hex) {
  Bytes out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return out;
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte b : bytes) out += fmt::format("{:02x}", static_cast<unsigned>(b));
  return out;
}

IndexFormat format_named(const std::string& name) {
  if (name == "mmap") return IndexFormat::kMmap;
  if (name == "cached") return IndexFormat::kCached;
  throw std::invalid_argument("impl: " + name);
}

ItemType type_of(const Json& input) {
  const std::string name = get<std::string>(input, "dtype");
  if (const auto type = item_type_named(name)) return *type;
  throw std::invalid_argument("dtype: " + name);
}

// One part of a data set: its items go into `bin`, their sizes and document ends into the builder.
void build(const Json& part, ItemType type, IndexBuilder& index, Bytes& bin) {
  std::vector<int64_t> ends = list<int64_t>(need(part, "documents"));
  size_t next_end = 0;
  int64_t count = 0;
  const auto end_documents = [&] {
    for (; next_end < ends.size() && ends[next_end] == count; ++next_end) index.end_document();
  };
  end_documents();
  for (const Json& item : need(part, "items").GetArray()) {
    if (type == ItemType::kUint64) {
      std::vector<uint64_t> tokens;
      for (const Json& token : array(item).GetArray()) tokens.push_back(token.GetUint64());
      append_tokens<uint64_t>(tokens, type, bin);
    } else {
      append_tokens<int64_t>(list<int64_t>(item), type, bin);
    }
    index.add_item(item.Size());
    ++count;
    end_documents();
  }
}

// The cases ask for the reader of one format.
void expect_format(std::span<const std::byte> idx, const std::string& name) {
  if (index_format(idx) != format_named(name)) {
    throw std::invalid_argument("idx: not of the format " + name);
  }
}

std::string write_parts(const Json& input) {
  const IndexFormat format = format_named(get<std::string>(input, "impl"));
  const ItemType type = type_of(input);
  IndexBuilder index(format, type);
  Bytes bin;
  if (get<std::string>(input, "op") == "write") {
    build(input, type, index, bin);
  } else {
    for (const Json& part : need(input, "parts").GetArray()) {
      IndexBuilder part_index(format, type);
      Bytes part_bin;
      build(part, type, part_index, part_bin);
      const Bytes idx = part_index.serialize();
      index.merge(DatasetIndex::parse(idx, static_cast<int64_t>(part_bin.size())));
      bin.insert(bin.end(), part_bin.begin(), part_bin.end());
    }
  }
  return Answer().add("bin", hex_of(bin)).add("idx", hex_of(index.serialize())).text();
}

// Calls use(tokens) with the tokens of a part of one item as uint64 or int64.
template <class Use>
void with_tokens(const IndexedDataset& data, int64_t item, int64_t offset, int64_t count,
                 const Use& use) {
  if (data.type() == ItemType::kUint64) {
    std::vector<uint64_t> tokens(static_cast<size_t>(count));
    data.read<uint64_t>(item, offset, tokens);
    use(tokens);
  } else {
    std::vector<int64_t> tokens(static_cast<size_t>(count));
    data.read<int64_t>(item, offset, tokens);
    use(tokens);
  }
}

void add_items(Answer& answer, const IndexedDataset& data, int64_t first, int64_t last) {
  std::vector<std::vector<uint64_t>> wide;
  std::vector<std::vector<int64_t>> items;
  for (int64_t i = first; i < last; ++i) {
    with_tokens(data, i, 0, data.numel(i), [&](const auto& tokens) {
      if constexpr (std::same_as<std::decay_t<decltype(tokens)>, std::vector<uint64_t>>) {
        wide.push_back(tokens);
      } else {
        items.push_back(tokens);
      }
    });
  }
  if (data.type() == ItemType::kUint64) {
    answer.add("items", wide);
  } else {
    answer.add("items", items);
  }
}

std::string read_all(const IndexedDataset& data) {
  const DatasetIndex& index = data.index();
  const int64_t unit =
      index.format() == IndexFormat::kCached ? bytes_per_token(index.type()) : int64_t{1};
  std::vector<int64_t> sizes, pointers, documents;
  for (int64_t i = 0; i < index.size(); ++i) {
    sizes.push_back(index.numel(i));
    pointers.push_back(index.byte_offset(i) / unit);
  }
  for (int64_t k = 0; k < index.document_entries(); ++k) {
    documents.push_back(index.document_start(k));
  }
  Answer answer;
  answer.add("dtype", to_string(index.type()))
      .add("sizes", sizes)
      .add("pointers", pointers)
      .add("doc_idx", documents);
  add_items(answer, data, 0, data.size());
  return answer.text();
}

}  // namespace

std::string indexed_dataset(const Json& input) {
  const std::string op = get<std::string>(input, "op");
  if (op == "write" || op == "merge") return write_parts(input);
  if (op == "best_dtype") {
    const auto type = best_item_type(get_optional<int64_t>(input, "vocab_size"));
    return Answer().add("dtype", to_string(type)).text();
  }
  const Bytes idx = bytes_of(get<std::string>(input, "idx"));
  if (op == "infer") {
    const auto format = index_format(idx);
    if (!format) return Answer().add("impl", std::nullopt).text();
    return Answer().add("impl", *format == IndexFormat::kMmap ? "mmap" : "cached").text();
  }
  const Bytes bin = bytes_of(get<std::string>(input, "bin"));
  expect_format(idx, get_or<std::string>(input, "impl", "mmap"));
  const IndexedDataset data = IndexedDataset::view(idx, bin);
  if (op == "read") return read_all(data);
  Answer answer;
  if (op == "slice") {
    const auto [first, last] = data.clamped_range(get_optional<int64_t>(input, "start"),
                                                  get_optional<int64_t>(input, "stop"));
    add_items(answer, data, first, last);
  } else if (op == "get") {
    const int64_t item = get<int64_t>(input, "index"), offset = get_or<int64_t>(input, "offset", 0);
    const int64_t count = get_or<int64_t>(input, "length", data.numel(item) - offset);
    with_tokens(data, item, offset, count,
                [&](const auto& tokens) { answer.add("values", tokens); });
  } else {
    throw std::invalid_argument("op: " + op);
  }
  return answer.text();
}

}  // namespace ds::conform
