// The ids of a text file, made in memory that does not grow with the file: it is read in buffers,
// and threads encode parts of each. The ids are those of the whole text, whatever the number of
// threads and wherever it begins anew.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/tasks/thread_pool.h"
#include "data/text/byte_stream.h"
#include "data/text/text_kind.h"
#include "data/tokens/dataset.h"

namespace ds {

// A place of a text at which its ids can be cut in two: what comes before does not matter any more.
struct TextPlace {
  int64_t bytes = 0;      // of the text, decompressed; in JSON lines: 0
  int64_t lines = 0;      // of JSON lines
  int64_t documents = 0;  // that end before it: JSON lines that are not empty, or one file
  bool is_end = false;
};

struct TextToEncode {
  const std::string& path;  // for messages
  Compression compression = Compression::kNone;
  const Tokenizer& tokenizer;
  const TextOptions& options;
};

// `after`: the place that the ids reach.
using OnIds = std::function<void(std::span<const int32_t> ids, const TextPlace& after)>;

// Calls `on_ids` with all ids from `from` on, in order, those that separate documents among them;
// the last call's place is the end. DataError for what is no text, naming file and place.
void encode_text(ByteStream& stream, const TextToEncode& text, const TextPlace& from,
                 ThreadPool& pool, const OnIds& on_ids);

}  // namespace ds
