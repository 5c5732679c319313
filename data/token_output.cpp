#include "data/token_output.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/indexed_dataset.h"
#include "data/llmc_header.h"

namespace ds {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 20;

[[noreturn]] void refuse_existing(const std::string& path) {
  throw UsageError(
      fmt::format("{} is there already: --force replaces it, --output names another", path));
}

void require_vocabulary(std::span<const int32_t> ids, int64_t vocab_size) {
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocab_size) continue;
    throw DataError(fmt::format("token id {} is outside of the vocabulary of {}", id, vocab_size));
  }
}

// An item of the data set is a document, as Megatron-LM's own preprocessing makes them.
class IndexedOutput final : public TokenOutput {
 public:
  IndexedOutput(FileSystem& files, const TokenOutputOptions& options)
      : files_(files),
        options_(options),
        writer_(files, options.prefix,
                {IndexFormat::kMmap, best_item_type(options.vocab_size),
                 options.format == TokenFormat::kMegatron ? TypeCodes::kMegatron
                                                          : TypeCodes::kDeepSpeed}) {}

  void add(std::span<const int32_t> ids) override {
    require_vocabulary(ids, options_.vocab_size);
    writer_.add_tokens(ids);
  }
  void end_document() override {
    writer_.end_item();
    writer_.end_document();
  }
  std::vector<std::string> finish() override {
    for (const char* const ending : {".bin", ".idx"}) {  // another run may have been quicker
      const std::string path = options_.prefix + ending;
      if (!options_.replaces && files_.exists(path)) refuse_existing(path);
    }
    writer_.finish();
    return {options_.prefix + ".bin", options_.prefix + ".idx"};
  }

 private:
  FileSystem& files_;
  const TokenOutputOptions options_;
  IndexedDatasetWriter writer_;
};

// PREFIX_000000.bin, PREFIX_000001.bin, ...
class ShardNames {
 public:
  explicit ShardNames(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string of(size_t shard) const { return fmt::format("{}_{:06}.bin", prefix_, shard); }

  // Returns how many follow each other without a gap. A file behind a gap is none of ours: others
  // have numbers in their names, too, such as a date.
  size_t present(const FileSystem& files) const {
    size_t count = 0;
    while (files.exists(of(count))) ++count;
    return count;
  }

 private:
  std::string prefix_;
};

class ShardOutput final : public TokenOutput {
 public:
  ShardOutput(FileSystem& files, const TokenOutputOptions& options)
      : files_(files),
        options_(options),
        names_(options.prefix),
        type_(options.vocab_size <= 1 << 16 ? ItemType::kUint16 : ItemType::kUint32) {
    DS_CHECK(options.shard_tokens > 0 && options.shard_tokens <= kMostShardTokens,
             "token output: shards of {} tokens, expected 1 to {}", options.shard_tokens,
             kMostShardTokens);
    begin();  // a folder that cannot be written to is told before texts are read
  }
  // Nothing stays of a set that did not become whole, or what the next run replaces.
  ~ShardOutput() override {
    file_.reset();
    for (size_t i = 0; i < begun_ && !is_whole_; ++i) {
      const std::string path = i < named_ ? names_.of(i) : unfinished(i);
      try {
        if (files_.exists(path)) files_.remove(path);
      } catch (const std::exception&) {
        return;
      }
    }
  }

  void add(std::span<const int32_t> ids) override {
    require_vocabulary(ids, options_.vocab_size);
    while (!ids.empty()) {
      if (tokens_ == options_.shard_tokens) {
        end();
        begin();
      }
      const int64_t room = options_.shard_tokens - tokens_;
      const auto part = ids.first(to_size(std::min(room, narrow<int64_t>(ids.size()))));
      append_tokens(part, type_, buffer_);
      tokens_ += narrow<int64_t>(part.size());
      ids = ids.subspan(part.size());
      if (buffer_.size() >= kFlushBytes) flush();
    }
  }
  void end_document() override {}

  std::vector<std::string> finish() override {
    end();
    const size_t old = names_.present(files_);
    if (old > 0 && !options_.replaces) refuse_existing(names_.of(0));
    std::vector<std::string> made;
    for (; named_ < begun_; ++named_) {
      files_.rename(unfinished(named_), names_.of(named_));
      made.push_back(names_.of(named_));
    }
    for (size_t i = begun_; i < old; ++i) files_.remove(names_.of(i));
    files_.sync_directory(parent_directory(options_.prefix));
    is_whole_ = true;
    return made;
  }

 private:
  std::string unfinished(size_t shard) const { return names_.of(shard) + std::string(kUnfinished); }

  void begin() {
    const std::string path = unfinished(begun_);
    if (files_.exists(path)) files_.remove(path);
    file_ = files_.create(path);
    ++begun_;
    tokens_ = written_ = 0;
  }
  void flush() {
    file_->write(narrow<int64_t>(sizeof(LlmcHeader)) + written_, buffer_);
    written_ += narrow<int64_t>(buffer_.size());
    buffer_.clear();
  }
  void end() {
    flush();
    const LlmcHeader header = llmc_header(type_ == ItemType::kUint16 ? 2 : 4, tokens_);
    file_->write(0, std::as_bytes(std::span(header)));
    file_->sync();
    file_.reset();
  }

  FileSystem& files_;
  const TokenOutputOptions options_;
  const ShardNames names_;
  const ItemType type_;
  std::unique_ptr<File> file_;
  std::vector<std::byte> buffer_;
  size_t begun_ = 0;  // shards
  size_t named_ = 0;  // of them, that have their names
  bool is_whole_ = false;
  int64_t tokens_ = 0;   // of the shard that is being written
  int64_t written_ = 0;  // bytes of them
};

}  // namespace

std::unique_ptr<TokenOutput> create_token_output(FileSystem& files,
                                                 const TokenOutputOptions& options) {
  const std::string folder = parent_directory(options.prefix);
  if (!files.exists(folder)) {
    throw UsageError(fmt::format("--output {}: there is no folder {}", options.prefix, folder));
  }
  const bool is_sharded = options.format == TokenFormat::kLlmc;
  std::vector<std::string> paths{options.prefix + ".bin", options.prefix + ".idx"};
  if (is_sharded) paths = {ShardNames(options.prefix).of(0)};
  for (const std::string& path : paths) {
    if (options.replaces) break;
    if (files.exists(path)) refuse_existing(path);
    const std::string unfinished = path + std::string(kUnfinished);
    if (files.exists(unfinished)) {
      throw UsageError(fmt::format(
          "{} is there: another run is writing it, or was killed; --force replaces what is there",
          unfinished));
    }
  }
  if (is_sharded) return std::make_unique<ShardOutput>(files, options);
  return std::make_unique<IndexedOutput>(files, options);
}

}  // namespace ds
