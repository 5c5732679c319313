#include "data/tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

#include "data/text/stream_digest.h"
#include "data/tokenizer/forms/forms.h"
#include "data/tokenizer/read/parts.h"

namespace ds {
namespace {

// Pieces that are known once they have been encoded, some 10 MiB a thread.
constexpr size_t kCachedPieces = 1 << 16;
constexpr size_t kLongestCached = 64;  // bytes

// Everything that a tokenizer.json says, in the order in which it is done to a text.
struct Parts {
  TokenTexts texts;
  std::vector<AddedToken> verbatim;  // looked for in the text
  Normalizers normalizers;
  std::vector<AddedToken> normalized;  // looked for in what the normalizers make of it
  std::vector<PreTokenizerStep> steps;
  std::unique_ptr<PieceEncoder> model;
  TokenDecoders decoders;
  std::optional<std::string> continues;  // what tokens begin with that begin no word, for WordPiece
  std::vector<std::string> notes;
};

// What one call of encode_part() has beside it.
struct Work {
  PatternWork patterns{0};
  // Texts repeat their words, so most pieces are looked up.
  std::unordered_map<std::string, std::vector<int32_t>, StringHash, std::equal_to<>> cache = {};
};

// Those that no call has at the moment: words that one text had are known for the next one.
// Thread-safe.
class WorkPool {
 public:
  class Lease {
   public:
    Lease(WorkPool& pool, size_t text_bytes) : pool_(pool), work_(pool.take()) {
      work_->patterns.begin_text(text_bytes);
    }
    ~Lease() { pool_.give(std::move(work_)); }
    Lease(const Lease&) = delete;
    Work& get() const { return *work_; }

   private:
    WorkPool& pool_;
    std::unique_ptr<Work> work_;
  };

 private:
  std::unique_ptr<Work> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Work>();
    std::unique_ptr<Work> work = std::move(idle_.back());
    idle_.pop_back();
    return work;
  }
  void give(std::unique_ptr<Work> work) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(work));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Work>> idle_;
};

class ReadTokenizer final : public Tokenizer {
 public:
  explicit ReadTokenizer(Parts parts)
      : texts_(std::move(parts.texts)),
        verbatim_(std::move(parts.verbatim)),
        normalizers_(std::move(parts.normalizers)),
        normalized_(std::move(parts.normalized)),
        pre_tokenizer_(std::move(parts.steps)),
        model_(std::move(parts.model)),
        decoders_(std::move(parts.decoders)),
        continues_(std::move(parts.continues)),
        notes_(std::move(parts.notes)) {}

  int64_t vocab_size() const override { return texts_.vocab_size(); }
  bool knows(int32_t id) const override { return texts_.find(id) != nullptr; }
  std::vector<std::string> notes() const override { return notes_; }
  std::string in_text(int32_t id) const override {
    const std::string* written = texts_.find(id);
    if (written != nullptr && continues_)  // whatever is done to spaces before signs
      return written->starts_with(*continues_) ? written->substr(continues_->size())
                                               : " " + *written;
    const std::string before = decode({&id, 1});
    const std::string both = decode(std::array{id, id});
    return both.substr(std::min(before.size(), both.size()));
  }

  size_t encode_part(std::string_view text, const TextPart& part,
                     std::vector<int32_t>& out) const override {
    TextPart wanted = part;
    if (!begins_anywhere()) {
      if (part.goes_on) return 0;
      wanted = {};
    }
    const WorkPool::Lease lease(work_, text.size());
    Work& work = lease.get();
    const auto on_token = [&](int32_t id) { out.push_back(id); };
    return verbatim_.split(
        text, wanted,
        [&](std::string_view section, const TextPart& of_section) {
          require_utf8(section, static_cast<size_t>(section.data() - text.data()));
          const bool begins = section.data() == text.data();
          if (normalizers_.empty())
            return encode_section(section, of_section, begins ? 1 : 0, work, out);
          const NormalizedText changed = normalized(section, begins, work.patterns);
          encode_section(changed.text, {}, changed.beginning, work, out);
          return section.size();
        },
        on_token);
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::vector<std::string> tokens;
    tokens.reserve(ids.size());
    for (const int32_t id : ids) {
      const std::string* text = texts_.find(id);
      if (text == nullptr)
        throw DataError(fmt::format("tokenizer: id {} is not in the vocabulary", id));
      tokens.push_back(*text);
    }
    if (tokens.empty()) return "";
    for (const auto& decoder : decoders_) decoder->apply(tokens);
    std::string text;
    for (const std::string& token : tokens) text += token;
    return text;
  }

 private:
  // Whether a text that is cut between two tokens has the tokens of its parts.
  bool begins_anywhere() const {
    return normalizers_.empty() && verbatim_.begins_anywhere() && normalized_.begins_anywhere() &&
           pre_tokenizer_.begins_anywhere();
  }

  static void require_utf8(std::string_view section, size_t begin) {
    const size_t invalid = first_invalid_utf8(section);
    if (invalid == std::string_view::npos) return;
    throw DataError(
        fmt::format("tokenizer: invalid UTF-8 at byte {} of the text", begin + invalid));
  }

  NormalizedText normalized(std::string_view section, bool begins, PatternWork& work) const {
    if (begins && pre_tokenizer_.asks_for_beginnings())
      return normalize_with_beginning(normalizers_, section, work);
    const PartOfText part = begins ? PartOfText::kBeginning : PartOfText::kFurtherOn;
    return {normalize(normalizers_, section, work, part)};
  }

  // `beginning`: so many bytes stand for the first character of a whole text.
  size_t encode_section(std::string_view text, const TextPart& part, size_t beginning, Work& work,
                        std::vector<int32_t>& out) const {
    return normalized_.split(
        text, part,
        [&](std::string_view section, const TextPart& of_section) {
          const bool begins = static_cast<size_t>(section.data() - text.data()) < beginning;
          const Pieces pieces = pre_tokenizer_.split(section, of_section, begins, work.patterns);
          for (const std::string_view piece : pieces.views) encode_piece(piece, work, out);
          return pieces.taken;
        },
        [&](int32_t id) { out.push_back(id); });
  }

  void encode_piece(std::string_view piece, Work& work, std::vector<int32_t>& out) const {
    const auto known = work.cache.find(piece);
    if (known != work.cache.end()) {
      out.insert(out.end(), known->second.begin(), known->second.end());
      return;
    }
    const auto begin = static_cast<ptrdiff_t>(out.size());
    model_->encode(piece, out);
    if (work.cache.size() < kCachedPieces && piece.size() <= kLongestCached)
      work.cache.emplace(piece, std::vector<int32_t>(out.begin() + begin, out.end()));
  }

  TokenTexts texts_;
  AddedTokens verbatim_;
  Normalizers normalizers_;
  AddedTokens normalized_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<PieceEncoder> model_;
  TokenDecoders decoders_;
  std::optional<std::string> continues_;
  std::vector<std::string> notes_;
  mutable WorkPool work_;
};

// An added token is found, and shown, as the normalizers leave it.
void normalize_added(const Normalizers& normalizers, std::vector<AddedToken>& tokens,
                     TokenTexts& texts) {
  for (AddedToken& token : tokens) {
    PatternWork work(token.content.size());
    token.content = normalize(normalizers, token.content, work);
    texts.rewrite(token.id, token.content);
  }
  std::erase_if(tokens, [](const AddedToken& token) {
    return token.content.empty() || token.content.size() > AddedTokens::kLongest;
  });
}

// What cuts or fills each text for a batch of sentences is no part of what its tokens are.
void note_unused(const JsonPart& document, std::vector<std::string>& notes) {
  for (const char* const key : {"truncation", "padding"}) {
    if (!document.member(key)) continue;
    notes.push_back(
        fmt::format("\"{}\" of the tokenizer is not applied: texts keep their length, "
                    "as transformers keeps it unless a call asks for another",
                    key));
  }
}

Parts read_parts(const JsonPart& document) {
  Parts parts;
  note_unused(document, parts.notes);
  if (const auto part = document.member("normalizer")) parts.normalizers = read_normalizers(*part);
  ReadSteps steps;
  if (const auto part = document.member("pre_tokenizer")) steps = read_steps(*part);
  const bool byte_letters = steps.ends_in_byte_letters;
  const auto model = document.member("model");
  if (!model || !model->value().IsObject()) document.refuse("there is no model");
  parts.model = read_model(*model, steps, parts.texts);
  if (steps.ends_in_byte_letters) steps.steps.push_back({.rewrite = byte_letters_of_pieces()});
  parts.steps = std::move(steps.steps);
  ReadAdded added = read_added(document, parts.texts);
  parts.verbatim = std::move(added.verbatim);
  parts.normalized = std::move(added.normalized);
  normalize_added(parts.normalizers, parts.normalized, parts.texts);
  if (const auto part = document.member("decoder")) {
    parts.decoders = read_decoders(*part);
    if (part->type() == "WordPiece") parts.continues = part->text("prefix", "##");
  } else {
    parts.decoders.push_back(byte_letters ? decode_byte_letters() : join_with_spaces());
  }
  return parts;
}

}  // namespace

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  encode_part(text, {}, ids);
  return ids;
}

size_t ByteTokenizer::encode_part(std::string_view text, const TextPart& part,
                                  std::vector<int32_t>& ids) const {
  text = text.substr(0, part.stop);
  ids.reserve(ids.size() + text.size());
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return text.size();
}

std::string ByteTokenizer::in_text(int32_t id) const { return decode({&id, 1}); }

std::string ByteTokenizer::decode(std::span<const int32_t> ids) const {
  std::string out;
  for (const int32_t id : ids) {
    if (id < 0 || id > 255) throw DataError(fmt::format("byte tokenizer: id {} is no byte", id));
    out.push_back(static_cast<char>(id));
  }
  return out;
}

std::unique_ptr<Tokenizer> load_tokenizer(FileSystem& file_system, const std::string& path) {
  try {
    const rapidjson::Document document = tokenizer_document(file_system, path);
    return std::make_unique<ReadTokenizer>(read_parts(JsonPart(path, document, "the file")));
  } catch (const DataError& error) {
    const std::string message = error.what();
    throw DataError(message.starts_with(path) ? message : fmt::format("{}: {}", path, message));
  }
}

std::string tokenizer_digest(FileSystem& file_system, const std::string& name_or_path) {
  if (name_or_path == "byte") return name_or_path;
  const std::string text = tokenizer_text(file_system, find_tokenizer(file_system, name_or_path));
  StreamDigest digest;
  digest.add(std::as_bytes(std::span(text)));
  return hex(digest.finish());
}

std::unique_ptr<Tokenizer> make_tokenizer(FileSystem& file_system,
                                          const std::string& name_or_path) {
  if (name_or_path == "byte") return std::make_unique<ByteTokenizer>();
  return load_tokenizer(file_system, find_tokenizer(file_system, name_or_path));
}

}  // namespace ds
