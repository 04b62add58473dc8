#include "data/text/added_tokens.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

size_t TwoBytes(char first, char second) {
  return size_t{static_cast<uint8_t>(first)} << 8 | static_cast<uint8_t>(second);
}

bool IsSpaceAt(const char* at) { return IsSpace(CodePointAt(at)); }

// Returns where the white space that ends at `end` begins, not before `least`.
size_t SpacesBefore(std::string_view text, size_t end, size_t least) {
  while (end > least) {
    size_t last = end - 1;
    while (last > least && !BeginsCharacter(text[last])) --last;
    if (!IsSpaceAt(text.data() + last)) break;
    end = last;
  }
  return end;
}

size_t SpacesBehind(std::string_view text, size_t begin) {
  while (begin < text.size() && IsSpaceAt(text.data() + begin)) begin += CharacterBytes(text[begin]);
  return begin;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::stable_sort(tokens_, std::greater(), [](const AddedToken& token) { return token.content.size(); });
  for (const AddedToken& token : tokens_) {
    for (int second = 0; second < 256; ++second) {
      if (token.content.size() > 1 && second != static_cast<uint8_t>(token.content[1])) continue;
      may_begin_.set(TwoBytes(token.content[0], static_cast<char>(second)));
    }
  }
}

const AddedToken* AddedTokens::FindAt(std::string_view text) const {
  if (!may_begin_[TwoBytes(text[0], text.size() > 1 ? text[1] : '\0')]) return nullptr;
  const auto found =
      std::ranges::find_if(tokens_, [text](const auto& token) { return text.starts_with(token.content); });
  return found == tokens_.end() ? nullptr : &*found;
}

void AddedTokens::Split(std::string_view text, const std::function<void(std::string_view)>& part,
                        const std::function<void(int32_t, std::string_view)>& token) const {
  size_t done = 0;
  const auto finish_part = [&](size_t end) {
    if (end > done) part(text.substr(done, end - done));
  };
  for (size_t at = 0; !tokens_.empty() && at < text.size();) {
    const AddedToken* const found = FindAt(text.substr(at));
    if (found == nullptr) {
      ++at;
      continue;
    }
    const size_t begin = found->takes_spaces_before ? SpacesBefore(text, at, done) : at;
    const size_t end = at + found->content.size();
    finish_part(begin);
    done = found->takes_spaces_behind ? SpacesBehind(text, end) : end;
    token(found->id, text.substr(begin, done - begin));
    at = done;
  }
  finish_part(text.size());
}

}  // namespace dtrain::data
