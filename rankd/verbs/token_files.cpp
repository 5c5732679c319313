#include "rankd/verbs/token_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "cli/text/terminal_text.h"
#include "core/files/watched_files.h"
#include "core/values/count_text.h"
#include "data/cache/file_lock.h"
#include "data/text/path_pattern.h"
#include "data/token_output.h"
#include "data/tokens/text_tokens.h"
#include "rankd/verbs/terminal/input_texts.h"
#include "rankd/verbs/terminal/json_values.h"
#include "rankd/verbs/terminal/live_line.h"
#include "rankd/verbs/tokenizing_words.h"
#include "train/assemble.h"

namespace ds {
namespace {

using Clock = std::chrono::steady_clock;
using Work = TokenizingProgress::Work;

// One line that is rewritten on a terminal, a line now and then elsewhere.
class ShownProgress {
 public:
  void operator()(const TokenizingProgress& progress) {
    const std::chrono::duration<double> now = Clock::now().time_since_epoch();
    const std::optional<std::string> text = words_.after(progress, now.count());
    if (!text) return;
    if (line_.is_live()) {
      line_.show(*text);
    } else {
      line_.say_between(*text);
    }
  }

 private:
  LiveLine line_;
  TokenizingWords words_{line_.is_live() ? TokenizingPace{.first_s = 0.3, .next_s = 0.2}
                                         : TokenizingPace{}};
};

struct Written {
  std::vector<std::string> files{};
  int64_t documents = 0;
  int64_t empty_documents = 0;  // without a token: left out
  int64_t tokens = 0;
  int64_t bytes = 0;  // of the files that were read
  double seconds = 0;
};

// The texts, one after the other, into one output.
class TokenFiles {
 public:
  TokenFiles(FileSystem& files, const Tokenizer& tokenizer, TextOptions options, int threads)
      : inner_(files),
        watched_(files, [this](int64_t end, int64_t /*bytes*/) { read_ = end; }),
        tokenizer_(tokenizer),
        options_(std::move(options)),
        pool_(threads) {}

  // Refuses what is no text before anything is read through or written.
  void look_at(const std::vector<std::string>& named) {
    const std::span<const std::string> paths(named);
    const DataLook look =
        look_at_token_sources(inner_, paths, options_, [](const Error&) { throw; });
    for (const std::string& note : look.notes) say(stderr, "note: {}\n", note);
    paths_ = expand_paths(inner_, paths);
    for (const std::string& path : paths_) {
      if (!has_text(inner_, std::span(&path, 1))) {
        throw DataError(fmt::format(
            "{}: holds token ids already; tokenize --output takes text and JSON lines", path));
      }
      progress_.total_bytes += inner_.open(path)->size();
    }
    progress_.path = called(paths_.front(), paths_.back(), paths_.size());
  }

  Written write(TokenOutput& output, PlainText plain) {
    const Clock::time_point begun = Clock::now();
    for (const std::string& path : paths_) {
      read_ = 0;
      before_ += encode_text_file(
          watched_, path,
          {.tokenizer = tokenizer_,
           .options = options_,
           .plain = plain,
           .pool = pool_,
           .on_ids = [&](const IdsOfText& text, const TextPlace&) { take(text, output); }});
    }
    if (written_.tokens == 0) {
      throw DataError(fmt::format("{}: there is no text in it", progress_.path));
    }
    written_.files = output.finish();
    written_.bytes = before_;
    written_.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    return written_;
  }

 private:
  void take(const IdsOfText& text, TokenOutput& output) {
    int64_t at = 0;
    const auto add_until = [&](int64_t end) {
      output.add(text.ids.subspan(to_size(at), to_size(end - at)));
      in_document_ += end - at;
      at = end;
    };
    for (const int64_t end : text.document_ends) {
      add_until(end);
      if (in_document_ == 0) {
        ++written_.empty_documents;
        continue;
      }
      output.end_document();
      ++written_.documents;
      written_.tokens += std::exchange(in_document_, 0);
    }
    add_until(narrow<int64_t>(text.ids.size()));
    progress_.done_bytes = std::min(before_ + read_, progress_.total_bytes);
    progress_.tokens = written_.tokens + in_document_;
    shown_(progress_);
  }

  FileSystem& inner_;
  WatchedFiles watched_;
  const Tokenizer& tokenizer_;
  const TextOptions options_;
  ThreadPool pool_;
  std::vector<std::string> paths_;
  ShownProgress shown_;
  TokenizingProgress progress_{.work = Work::kTokenise};
  Written written_;
  int64_t before_ = 0, read_ = 0;  // bytes of the files before, and of this one
  int64_t in_document_ = 0;        // tokens of the document that is being written
};

std::string json_line(const Written& written, const std::string& format) {
  Value out = Value::object();
  out.set("files", strings_value(written.files));
  out.set("format", Value::string(format));
  for (const auto& [key, value] : {std::pair{"documents", written.documents},
                                   {"empty_documents", written.empty_documents},
                                   {"tokens", written.tokens},
                                   {"bytes", written.bytes}}) {
    out.set(key, Value::integer(value));
  }
  out.set("seconds", Value::number(written.seconds));
  return to_compact_json(out) + "\n";
}

std::string plain_lines(const Written& written) {
  const std::vector<std::string>& files = written.files;
  const std::string names = files.size() == 2 ? fmt::format("{}", fmt::join(files, ", "))
                                              : called(files.front(), files.back(), files.size());
  const double bytes_a_second =
      static_cast<double>(written.bytes) / std::max(written.seconds, 1e-9);
  const ScaledBytes rate = scale_bytes(bytes_a_second);
  std::string out = fmt::format("{}: {} documents, {} tokens, {:.1f} s ({:.1f} {}/s)\n", names,
                                count_text(written.documents), count_text(written.tokens),
                                written.seconds, rate.value, rate.unit);
  if (written.empty_documents > 0) {
    out += fmt::format("{} documents without a token were left out\n",
                       count_text(written.empty_documents));
  }
  return out;
}

// Two runs that write the same files one after the other's back would mix them.
std::unique_ptr<PassingLock> turn_of(FileSystem& files, const std::string& prefix) {
  if (!files.exists(parent_directory(prefix))) return nullptr;  // which is told when it is created
  std::unique_ptr<PassingLock> turn = PassingLock::try_take(prefix + ".lock");
  if (turn != nullptr) return turn;
  throw UsageError(fmt::format(
      "{}: another run is writing it; wait until it has ended, or name another with --output",
      prefix));
}

}  // namespace

int write_token_files(const TokenizeArgs& args, const TokenFilesPlace& place) {
  static const std::map<std::string, TokenFormat> kFormats{{"megatron", TokenFormat::kMegatron},
                                                           {"deepspeed", TokenFormat::kDeepSpeed},
                                                           {"llmc", TokenFormat::kLlmc}};
  const TokenFileArgs& to = args.to_files;
  DataSection data;
  data.tokenizer = place.tokenizer_name;
  if (to.field) data.field = *to.field;
  data.separator = to.separator;
  TokenFiles texts(place.inputs, place.tokenizer, text_options(data, place.tokenizer, place.inputs),
                   to.threads.value());
  texts.look_at(args.files);
  const std::string format = to.format.value_or("megatron");
  TokenOutputOptions options{.prefix = to.output.value(),
                             .format = kFormats.at(format),
                             .vocab_size = place.tokenizer.vocab_size(),
                             .replaces = to.force};
  if (to.shard_tokens) options.shard_tokens = *to.shard_tokens;
  const std::unique_ptr<PassingLock> turn = turn_of(place.outputs, options.prefix);
  const std::unique_ptr<TokenOutput> output = create_token_output(place.outputs, options);
  const PlainText plain = args.lines ? PlainText::kDocumentPerLine : PlainText::kOneDocument;
  const Written written = texts.write(*output, plain);
  print_now(args.json ? json_line(written, format) : plain_lines(written));
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace ds
