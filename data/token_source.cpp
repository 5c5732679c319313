#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/values/index.h"
#include "data/indexed_dataset.h"
#include "data/llmc_header.h"
#include "data/text/data_notes.h"
#include "data/text/path_pattern.h"
#include "data/tokens/dataset.h"
#include "data/tokens/text_memory.h"
#include "data/tokens/token_parts.h"

namespace ds {
namespace {

class RawTokens final : public TokenSource {
 public:
  RawTokens(std::unique_ptr<File> file, int64_t header_bytes, int token_bytes,
            std::optional<int64_t> documents)
      : file_(std::move(file)),
        header_bytes_(header_bytes),
        token_bytes_(token_bytes),
        documents_(documents) {
    size_ = (file_->size() - header_bytes) / token_bytes;
  }

  int64_t size() const override { return size_; }
  std::optional<int64_t> documents() const override { return documents_; }

  void read(int64_t offset, std::span<int32_t> out) const override {
    DS_CHECK(offset >= 0 && offset + narrow<int64_t>(out.size()) <= size_,
             "read tokens [{}, {}) of {}, which has {}", offset,
             offset + narrow<int64_t>(out.size()), file_->path(), size_);
    // The narrow tokens arrive at the end of the wide buffer and are widened from the front: a
    // token is never overwritten before it is read.
    const auto bytes = std::as_writable_bytes(out).last(out.size() * to_size(token_bytes_));
    read_bytes(header_bytes_ + offset * token_bytes_, bytes);
    switch (token_bytes_) {
      case 1:
        widen<uint8_t>(bytes, out);
        break;
      case 2:
        widen<uint16_t>(bytes, out);
        break;
      default:
        widen<uint32_t>(bytes, out);
        break;
    }
  }

  std::string locate(int64_t token) const override {
    return fmt::format("{} at byte {}", file_->path(), header_bytes_ + token * token_bytes_);
  }

 private:
  void read_bytes(int64_t offset, std::span<std::byte> into) const {
    try {
      file_->read(offset, into);
    } catch (const IoError&) {
      const int64_t expected = header_bytes_ + size_ * token_bytes_;
      if (file_->size() >= expected) throw;
      throw DataError(fmt::format("{}: the file shrank from {} to {} bytes while in use",
                                  file_->path(), expected, file_->size()));
    }
  }

  template <class T>
  static void widen(std::span<const std::byte> from, std::span<int32_t> to) {
    for (size_t i = 0; i < to.size(); ++i) {
      T token;
      std::memcpy(&token, from.data() + i * sizeof(T), sizeof(T));
      to[i] = static_cast<int32_t>(token);
    }
  }

  std::unique_ptr<File> file_;
  int64_t header_bytes_;
  int token_bytes_;
  std::optional<int64_t> documents_;
  int64_t size_ = 0;
};

class IndexedTokens final : public TokenSource {
 public:
  explicit IndexedTokens(const std::string& prefix)
      : prefix_(prefix), dataset_(IndexedDataset::open(prefix)) {
    for (int64_t item = 0; item < dataset_.size(); ++item) offsets_.add(dataset_.numel(item));
  }
  int64_t size() const override { return offsets_.total(); }
  std::optional<int64_t> documents() const override { return dataset_.documents(); }
  void read(int64_t offset, std::span<int32_t> out) const override {
    while (!out.empty()) {
      const auto [item, inside] = offsets_.find(offset);
      const auto count = std::min(narrow<int64_t>(out.size()), offsets_.size(item) - inside);
      dataset_.read<int32_t>(static_cast<int64_t>(item), inside, out.first(to_size(count)));
      out = out.subspan(to_size(count));
      offset += count;
    }
  }
  std::string locate(int64_t token) const override {
    const auto [item, inside] = offsets_.find(token);
    return fmt::format("{}.bin at item {}, token {}", prefix_, item, inside);
  }

 private:
  std::string prefix_;
  IndexedDataset dataset_;
  Offsets offsets_;
};

std::optional<int32_t> first_word(FileSystem& file_system, const std::string& path) {
  const auto file = file_system.open(path);
  if (file->size() < 4) return std::nullopt;
  int32_t word = 0;
  file->read(0, std::as_writable_bytes(std::span(&word, 1)));
  return word;
}

bool is_llmc_shard(FileSystem& file_system, const std::string& path) {
  const auto word = first_word(file_system, path);
  return std::ranges::any_of(kLlmcKinds, [&](const LlmcKind& kind) { return word == kind.magic; });
}

// The prefix of an indexed data set, if the path names one.
std::optional<std::string> indexed_prefix(FileSystem& file_system, const std::string& path) {
  std::string prefix = path;
  if (path.ends_with(".bin") || path.ends_with(".idx")) prefix.resize(prefix.size() - 4);
  const bool both = file_system.exists(prefix + ".bin") && file_system.exists(prefix + ".idx");
  if (!both) return std::nullopt;
  return prefix;
}

enum class DataForm { kIndexed, kShard, kText };

DataForm form_of(FileSystem& file_system, const std::string& path) {
  if (indexed_prefix(file_system, path)) return DataForm::kIndexed;
  if (is_llmc_shard(file_system, path)) return DataForm::kShard;
  if (path.ends_with(".bin") || path.ends_with(".idx")) {
    throw DataError(
        fmt::format("{}: neither a token shard (it lacks the header) nor an indexed data "
                    "set (which needs a .bin and an .idx file)",
                    path));
  }
  return DataForm::kText;
}

}  // namespace

std::shared_ptr<const TokenSource> open_raw_tokens(std::unique_ptr<File> file, int64_t header_bytes,
                                                   int token_bytes,
                                                   std::optional<int64_t> documents) {
  DS_CHECK(token_bytes == 1 || token_bytes == 2 || token_bytes == 4,
           "open_raw_tokens: tokens of {} bytes, expected 1, 2 or 4", token_bytes);
  return std::make_shared<RawTokens>(std::move(file), header_bytes, token_bytes, documents);
}

std::shared_ptr<const TokenSource> open_llmc_shard(FileSystem& file_system,
                                                   const std::string& path) {
  auto file = file_system.open(path);
  LlmcHeader header{};
  if (file->size() < static_cast<int64_t>(sizeof(header))) {
    throw DataError(fmt::format("{}: {} bytes are too few for the {}-byte header of a token shard",
                                path, file->size(), sizeof(header)));
  }
  file->read(0, std::as_writable_bytes(std::span(header)));
  const auto* kind = std::ranges::find_if(kLlmcKinds, [&](const LlmcKind& k) {
    return header[0] == k.magic && header[1] == k.version;
  });
  if (kind == kLlmcKinds.end()) {
    throw DataError(
        fmt::format("{}: magic {} version {} is no token shard, expected {} version {} or "
                    "{} version {}",
                    path, header[0], header[1], kLlmcKinds[0].magic, kLlmcKinds[0].version,
                    kLlmcKinds[1].magic, kLlmcKinds[1].version));
  }
  const int64_t expected =
      static_cast<int64_t>(sizeof(header)) + int64_t{header[2]} * kind->token_bytes;
  if (header[2] < 0 || file->size() != expected) {
    throw DataError(
        fmt::format("{}: the header announces {} tokens, {} bytes in all, but the file has "
                    "{} bytes",
                    path, header[2], expected, file->size()));
  }
  return open_raw_tokens(std::move(file), sizeof(header), kind->token_bytes);
}

std::shared_ptr<const TokenSource> open_indexed(const std::string& prefix) {
  return std::make_shared<IndexedTokens>(prefix);
}

bool has_text(FileSystem& file_system, std::span<const std::string> paths) {
  const std::vector<std::string> files = expand_paths(file_system, paths);
  return std::ranges::any_of(files, [&](const std::string& path) {
    return form_of(file_system, path) == DataForm::kText;
  });
}

std::vector<std::shared_ptr<const TokenSource>> open_token_sources(
    FileSystem& file_system, std::span<const std::string> paths, const Tokenizer& tokenizer,
    const TextOptions& options) {
  std::vector<std::shared_ptr<const TokenSource>> sources;
  std::vector<std::string> texts;
  const auto finish_texts = [&] {
    if (!texts.empty()) sources.push_back(open_text(file_system, texts, tokenizer, options));
    texts.clear();
  };
  for (const std::string& path : expand_paths(file_system, paths)) {
    const DataForm form = form_of(file_system, path);
    if (form == DataForm::kText) {
      texts.push_back(path);
      continue;
    }
    finish_texts();
    sources.push_back(form == DataForm::kShard ? open_llmc_shard(file_system, path)
                                               : open_indexed(*indexed_prefix(file_system, path)));
  }
  finish_texts();
  return sources;
}

namespace {

// One file after the other, as open_token_sources would open them.
class SourceLook {
 public:
  SourceLook(FileSystem& file_system, const TextOptions& options,
             const std::function<void(const Error& problem)>& on_problem)
      : file_system_(file_system), options_(options), on_problem_(on_problem) {}

  void look_at_entry(const std::string& path) {
    const std::vector<std::string> files = expand_paths(file_system_, std::span(&path, 1));
    std::vector<DataNotes::NamedFile> named;
    for (size_t i = 0; i < files.size(); ++i) {
      try {
        named.push_back({files[i], look_at(files[i], is_looked_into(i, files.size()))});
      } catch (const Error& problem) {
        on_problem_(problem);
      }
    }
    notes_.add_files(named);
  }
  DataLook found() const {
    return {.most_tokens = most_, .texts = bytes_, .notes = notes_.texts()};
  }

 private:
  DataNotes::Form look_at(const std::string& path, bool into) {
    const DataForm form = form_of(file_system_, path);
    if (form == DataForm::kText) {
      const TextLook text = look_at_text(file_system_, path, options_);
      texts_ = std::min(kManyTokens, texts_ + text.most_tokens);
      most_ = std::max(most_, texts_);
      count(text);
      if (text.is_json_lines) return DataNotes::Form::kJsonLines;
      if (into) notes_.add_text(path, text.head);
      return DataNotes::Form::kText;
    }
    texts_ = 0;
    is_new_run_ = true;
    const auto source = form == DataForm::kShard
                            ? open_llmc_shard(file_system_, path)
                            : open_indexed(*indexed_prefix(file_system_, path));
    most_ = std::max(most_, source->size());
    return DataNotes::Form::kTokens;
  }

  void count(const TextLook& text) {
    if (std::exchange(is_new_run_, false)) bytes_.emplace_back();
    TextBytes& run = bytes_.back();
    const bool is_large = text.text_bytes >= kLeastKeptText;
    int64_t& bytes = text.is_plain ? (is_large ? run.large_plain : run.small_plain)
                                   : (is_large ? run.large : run.small);
    bytes += text.text_bytes;
  }

  FileSystem& file_system_;
  const TextOptions& options_;
  const std::function<void(const Error& problem)>& on_problem_;
  DataNotes notes_;
  std::vector<TextBytes> bytes_;  // of each run
  bool is_new_run_ = true;
  int64_t most_ = 0;   // tokens of a source
  int64_t texts_ = 0;  // of neighbouring text files, which are one source
};

}  // namespace

DataLook look_at_token_sources(FileSystem& file_system, std::span<const std::string> paths,
                               const TextOptions& options,
                               const std::function<void(const Error& problem)>& on_problem) {
  SourceLook look(file_system, options, on_problem);
  for (const std::string& path : paths) {
    try {
      look.look_at_entry(path);
    } catch (const Error& problem) {
      on_problem(problem);
    }
  }
  return look.found();
}

}  // namespace ds
