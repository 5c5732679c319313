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
  int64_t bytes = 0;      // of the text, decompressed; where lines are documents: 0
  int64_t lines = 0;      // of texts whose lines are documents
  int64_t documents = 0;  // that end before it: lines that are not empty, or one file
  bool is_end = false;
};

// What a plain text is; JSON lines are a document each whatever this says.
enum class PlainText { kOneDocument, kDocumentPerLine };

struct TextToEncode {
  const std::string& path;  // for messages
  Compression compression = Compression::kNone;
  const Tokenizer& tokenizer;
  const TextOptions& options;
  PlainText plain = PlainText::kOneDocument;
};

// Ids that follow each other, and the places among them at which documents end, each after what
// separates it from the next one.
struct IdsOfText {
  std::span<const int32_t> ids{};
  std::span<const int64_t> document_ends{};
};
// `after`: the place that the ids reach.
using OnIds = std::function<void(const IdsOfText& text, const TextPlace& after)>;

// Calls `on_ids` with all ids from `from` on, in order, those that separate documents among them;
// the last call's place is the end. DataError for what is no text, naming file and place.
void encode_text(ByteStream& stream, const TextToEncode& text, const TextPlace& from,
                 ThreadPool& pool, const OnIds& on_ids);

// How a text file is encoded from its beginning to its end.
struct FileEncoding {
  const Tokenizer& tokenizer;
  const TextOptions& options;
  PlainText plain = PlainText::kOneDocument;
  ThreadPool& pool;
  OnIds on_ids = nullptr;
};
// Does what encode_text does, once the file has been looked at as by open_text: DataError for what
// is no text, Unsupported for what this build could read with another library. Returns the bytes of
// the file.
int64_t encode_text_file(FileSystem& files, const std::string& path, const FileEncoding& encoding);

}  // namespace ds
