// Text to token ids and back. Two tokenizers: bytes (256 ids, nothing to load) and whatever a file
// describes: a Hugging Face tokenizer.json (BPE, WordPiece, Unigram, words), or one of the forms
// that forms/forms.h lists. Anything in the file that would change the ids and is not implemented
// is refused by name, never skipped.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/file.h"
#include "data/tokenizer/text/text_part.h"

namespace ds {

// Thread-safe: nothing changes after construction.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual int64_t vocab_size() const = 0;    // largest id + 1
  virtual bool knows(int32_t id) const = 0;  // not every id below vocab_size() need be a token
  // DataError with the byte offset if the text cannot be encoded (invalid UTF-8, for BPE). Special
  // tokens that a post-processor would add (<|begin_of_text|>) are not added; those in the text are
  // recognised.
  std::vector<int32_t> encode(std::string_view text) const;
  // Appends the ids of the beginning of the text, and says how many bytes they stand for: what is
  // left, and follows, has the ids that it has as a part that continues. 0 where more text has to
  // be known, which may be all of it. Without a stop, of a text that does not go on: all of it.
  virtual size_t encode_part(std::string_view text, const TextPart& part,
                             std::vector<int32_t>& ids) const = 0;
  // The next place at which a text is likely to be cut, at `from` bytes or behind them: a part with
  // this stop most often ends there. npos where no place is seen.
  virtual size_t next_cut(std::string_view text, size_t from) const;
  // Whether that is anywhere, so that texts of any length take little memory.
  virtual bool encodes_in_parts() const { return true; }
  // The text of these tokens, which may end inside a UTF-8 character. What a token becomes may
  // depend on those before it: see TokenStream for texts that come by and by. DataError for an
  // unknown id.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;
  // What the token adds to a text that other tokens went before in: a word with the space before
  // it, the bytes of a part of a character. DataError for an unknown id.
  virtual std::string in_text(int32_t id) const = 0;
  // Whether tokens are made of bytes as they stand, so that a word has other tokens behind a space
  // than at the beginning of a text.
  virtual bool has_bytes() const { return false; }
  // What the tokenizer's file asks for and is not done, for people.
  virtual std::vector<std::string> notes() const { return {}; }
};

class ByteTokenizer final : public Tokenizer {
 public:
  int64_t vocab_size() const override { return 256; }
  bool knows(int32_t id) const override { return id >= 0 && id < 256; }
  size_t encode_part(std::string_view text, const TextPart& part,
                     std::vector<int32_t>& ids) const override;
  std::string decode(std::span<const int32_t> ids) const override;
  std::string in_text(int32_t id) const override;
  bool has_bytes() const override { return true; }
};

// A file of a tokenizer, in the form that its name says. InputMissing without the file, DataError
// for a malformed one, Unsupported for a model or pre-tokenizer that is not implemented.
std::unique_ptr<Tokenizer> load_tokenizer(FileSystem& file_system, const std::string& path);

// "byte", a file of a tokenizer, or a folder with one: throws as find_tokenizer and load_tokenizer
// do.
std::unique_ptr<Tokenizer> make_tokenizer(FileSystem& file_system, const std::string& name_or_path);

// What a name stands for: "byte", or the path of a file of a tokenizer. InputMissing, with what to
// do instead, for a folder without any. Writes nothing.
std::string find_tokenizer(FileSystem& file_system, const std::string& name_or_path);

// The digest is of what decides about ids: equal for tokenizers that are read from equal files.
std::string tokenizer_digest(FileSystem& file_system, const std::string& name_or_path);

// ConfigError with both numbers where the tokenizer has ids that a model of `vocabulary` tokens has
// no row for. Fewer are as it should be: vocabularies are padded. `name` is the tokenizer's, for
// the message.
void check_vocabulary(const Tokenizer& tokenizer, const std::string& name, int64_t vocabulary);

// What a model's folder holds of this tokenizer, whether it can be read here or not: name there ->
// path here. Of "byte", nothing.
std::map<std::string, std::string> tokenizer_files(FileSystem& file_system,
                                                   const std::string& name_or_path);

// The token that ends a document, of the tokenizer_config.json or else the special_tokens_map.json
// beside a tokenizer, or else of a file that says so itself; nothing where there is none.
std::optional<std::string> eos_token(FileSystem& file_system, const std::string& name_or_path);
// The same for another role: "bos_token", "pad_token".
std::optional<std::string> token_of_role(FileSystem& file_system, const std::string& name_or_path,
                                         const std::string& role);

}  // namespace ds
