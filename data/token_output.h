// Token ids of documents, written into the files that training programs read: an indexed data set
// of Megatron-LM or DeepSpeed (data/indexed_dataset.h), or shards of llm.c. All of the files have
// their names from finish() on and none before; what is not finished is removed again. A set
// that is replaced stays until then, and is lost where the disk fails while the new one is named.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/files/file.h"

namespace ds {

enum class TokenFormat { kMegatron, kDeepSpeed, kLlmc };

// Confined to one thread.
class TokenOutput {
 public:
  virtual ~TokenOutput() = default;
  // Ids of the document that is being written. DataError for ids beyond the vocabulary.
  virtual void add(std::span<const int32_t> ids) = 0;
  virtual void end_document() = 0;
  // Makes all files durable and returns their names.
  virtual std::vector<std::string> finish() = 0;
};

struct TokenOutputOptions {
  std::string prefix{};
  TokenFormat format = TokenFormat::kMegatron;
  int64_t vocab_size = 0;              // decides how many bytes an id takes
  int64_t shard_tokens = 100'000'000;  // of llm.c, at most; a document goes on in the next shard
  bool replaces = false;               // files of that prefix that are there
};

inline constexpr int64_t kMostShardTokens = INT32_MAX;  // that the header of llm.c can say

// UsageError where files of that prefix are there and are not to be replaced, or its folder is not;
// DiskFull, IoError.
// `files` outlives what is returned.
std::unique_ptr<TokenOutput> create_token_output(FileSystem& files,
                                                 const TokenOutputOptions& options);

}  // namespace ds
