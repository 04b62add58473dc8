#include "data/text/pre_tokenizer.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "data/text/unicode_classes.h"
#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

const CharacterClass* ClassTable() {
  static const CharacterClass* const classes = CharacterClasses().data();
  return classes;
}

class Cutter {
 public:
  explicit Cutter(std::string_view text) : begin_(text.data()), end_(text.data() + text.size()) {}

  size_t PieceBytes() const {
    if (const size_t contraction = Contraction(); contraction > 0) return contraction;
    const CharacterClass first = ClassAt(begin_);
    if (first != CharacterClass::kSpace) return static_cast<size_t>(RunEnd(begin_, first) - begin_);
    const char* const second = begin_ + CharacterBytes(*begin_);
    if (*begin_ == ' ' && second < end_ && ClassAt(second) != CharacterClass::kSpace) {
      return static_cast<size_t>(RunEnd(second, ClassAt(second)) - begin_);
    }
    return Spaces();
  }

 private:
  CharacterClass ClassAt(const char* at) const { return classes_[CodePointAt(at)]; }

  const char* RunEnd(const char* at, CharacterClass kind) const {
    while (at < end_ && ClassAt(at) == kind) at += CharacterBytes(*at);
    return at;
  }

  size_t Contraction() const {
    if (*begin_ != '\'' || end_ - begin_ < 2) return 0;
    const char second = begin_[1];
    if (second == 's' || second == 't' || second == 'm' || second == 'd') return 2;
    if (end_ - begin_ < 3) return 0;
    const char third = begin_[2];
    const bool is_one =
        (second == 'r' && third == 'e') || (second == 'v' && third == 'e') || (second == 'l' && third == 'l');
    return is_one ? 3 : 0;
  }

  // A run of white space leaves its last character to the next piece, unless it has only one or ends the text.
  size_t Spaces() const {
    const char* last = begin_;
    const char* at = begin_;
    while (at < end_ && ClassAt(at) == CharacterClass::kSpace) {
      last = at;
      at += CharacterBytes(*at);
    }
    const char* const cut = at == end_ || last == begin_ ? at : last;
    return static_cast<size_t>(cut - begin_);
  }

  const char *const begin_, *const end_;
  const CharacterClass* const classes_ = ClassTable();
};

}  // namespace

std::string_view TakePiece(std::string_view& text) {
  const std::string_view piece = text.substr(0, Cutter(text).PieceBytes());
  text.remove_prefix(piece.size());
  return piece;
}

}  // namespace dtrain::data
