#include "config/reader/secret_keys.h"

#include <algorithm>
#include <array>
#include <vector>

namespace ds {

namespace {

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// "HF_TOKEN" and "hfToken" are "hf" and "token".
std::vector<std::string> words_of(std::string_view key) {
  std::vector<std::string> words(1);
  char before = '\0';
  for (const char c : key) {
    const bool hump = c >= 'A' && c <= 'Z' && before >= 'a' && before <= 'z';
    if ((hump || !is_letter_or_digit(c)) && !words.back().empty()) words.emplace_back();
    if (is_letter_or_digit(c)) words.back() += lower(c);
    before = c;
  }
  if (words.size() > 1 && words.back().empty()) words.pop_back();
  return words;
}

template <size_t kSize>
bool is_one_of(const std::array<std::string_view, kSize>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

// A value that is an object or a list may have such keys in it, also where it is malformed.
bool names_secret(std::string_view text) {
  if (text.empty() || (text.front() != '{' && text.front() != '[')) return false;
  const auto is_of_key = [](char c) { return is_letter_or_digit(c) || c == '_' || c == '-'; };
  while (!text.empty()) {
    const auto end = std::ranges::find_if_not(text, is_of_key);
    if (is_secret_key(text.substr(0, static_cast<size_t>(end - text.begin())))) return true;
    text.remove_prefix(std::min(static_cast<size_t>(end - text.begin()) + 1, text.size()));
  }
  return false;
}

bool has_secret_component(std::string_view path) {
  while (true) {
    const size_t dot = path.find('.');
    if (is_secret_key(path.substr(0, dot))) return true;
    if (dot == std::string_view::npos) return false;
    path.remove_prefix(dot + 1);
  }
}

}  // namespace

bool is_secret_key(std::string_view key) {
  static constexpr std::array<std::string_view, 10> kAnywhere = {
      "password", "passwd",     "passphrase",  "secret", "secrets",
      "apikey",   "credential", "credentials", "bearer", "authorization"};
  static constexpr std::array<std::string_view, 8> kBeforeKey = {
      "api", "access", "private", "auth", "account", "encryption", "signing", "license"};
  const std::vector<std::string> words = words_of(key);
  if (std::ranges::any_of(words,
                          [](const std::string& word) { return is_one_of(kAnywhere, word); }))
    return true;
  if (words.back() == "token") return true;
  if (words.back() != "key") return false;
  return words.size() == 1 || is_one_of(kBeforeKey, words[words.size() - 2]);
}

std::string without_passwords(std::string_view text) {
  constexpr std::string_view kScheme = "://";
  std::string out;
  for (size_t at = text.find(kScheme); at != std::string_view::npos; at = text.find(kScheme)) {
    out += text.substr(0, at + kScheme.size());
    text.remove_prefix(at + kScheme.size());
    const std::string_view authority = text.substr(0, text.find_first_of("/?#\"' \n"));
    const size_t user_end = authority.rfind('@');
    if (user_end == std::string_view::npos) continue;
    out += kKeptSecret;
    text.remove_prefix(user_end);
  }
  return out += text;
}

std::string shown_override(std::string_view text) {
  const size_t end = text.find_first_of("=:");
  if (text.starts_with('~') || end == std::string_view::npos) return std::string(text);
  const std::string_view value = text.substr(end + 1);
  const std::string_view path = text.substr(0, end);
  if (has_secret_component(path.substr(path.starts_with('+') ? 1 : 0)) || names_secret(value)) {
    return std::string(text.substr(0, end + 1)) + std::string(kKeptSecret);
  }
  return without_passwords(text);
}

}  // namespace ds
