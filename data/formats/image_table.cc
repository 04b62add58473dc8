#include "data/formats/image_table.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "data/error.h"
#include "data/folder_names.h"
#include "data/formats/in_parallel.h"
#include "data/formats/labels.h"
#include "data/formats/record_format.h"
#include "data/formats/table_reader.h"
#include "data/image/codecs.h"
#include "data/joined.h"
#include "data/sha256.h"
#include "data/shown.h"
#include "data/storage.h"
#include "data/text/utf8.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kImageColumns[] = {"image",     "path",      "file",       "filename",   "file_name",
                                              "filepath",  "file_path", "image_path", "image_name", "image_file",
                                              "imagepath", "img",       "img_path",   "image_id"};
constexpr std::string_view kSplitColumn = "split";

struct ImageColumns {
  size_t image = 0;  // positions in the header
  std::vector<size_t> labels;
  std::optional<size_t> split, group;
  LabelCells cells = {};  // of several labels
};

std::optional<size_t> SplitColumn(const ColumnFinder& columns, const LabelTable& table) {
  if (table.split_column.empty()) return columns.Find(kSplitColumn);
  return columns.Named(table.split_column, "--split_column");
}

ImageColumns FindColumns(const TableReader& reader, const LabelTable& table, LabelKind kind) {
  const ColumnFinder columns(reader);
  ImageColumns found{.image = 0, .labels = {}, .split = SplitColumn(columns, table), .group = {}};
  if (kind == LabelKind::kSeveral) found.cells = LabelCellsOf(reader, table.label_column, table.separator);
  if (kind == LabelKind::kNumbers || found.cells.by_column) {
    found.labels = columns.AllNamed(table.label_column, "--label_column");
  } else if (!table.label_column.empty()) {
    found.labels = {columns.Named(table.label_column, "--label_column")};
  }
  std::vector<size_t> taken = found.labels;
  if (found.split) taken.push_back(*found.split);
  found.image = table.image_column.empty() ? columns.Only(kImageColumns, taken, "paths of images", "--image_column")
                                           : columns.Named(table.image_column, "--image_column");
  taken.push_back(found.image);
  if (found.labels.empty()) {
    found.labels = {columns.Only(kLabelColumns, taken, "labels", "--label_column")};
    taken.push_back(found.labels.front());
  }
  RequireDistinct(taken, reader, "image, label and split", "--image_column, --label_column and --split_column");
  if (!table.group_column.empty()) found.group = columns.Named(table.group_column, "--group_column");
  return found;
}

// Whether the cell of a row means the split, in any case.
bool IsOfSplit(std::string_view cell, const std::string& split) {
  std::vector<std::string> names = SplitNames(split);
  if (names.front() == "train") names.emplace_back("training");
  return std::ranges::any_of(names, [cell](const std::string& name) {
    return std::ranges::equal(cell, name,
                              [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  });
}

// Returns the path below the folder that a cell names; empty if it leads out of the folder.
std::string PathBelow(const std::string& folder, std::string_view cell) {
  fs::path path = fs::path(cell).lexically_normal();
  const auto leaves = [](const fs::path& below) { return below.empty() || *below.begin() == ".." || below == "."; };
  if (path.is_absolute()) {
    const fs::path whole = path;
    path = whole.lexically_relative(fs::absolute(folder).lexically_normal());
    std::error_code unreadable;
    if (leaves(path)) path = whole.lexically_relative(fs::weakly_canonical(folder, unreadable));
  }
  return leaves(path) ? "" : path.string();
}

// Throws DataError if the first line, which has the names of the columns, names an image, which would be lost in
// silence where columns are told by their numbers. `column` is that of the images.
void RequireNamesIn(const TableReader& reader, size_t column, const LabelTable& table, const std::string& folder) {
  const std::string name(Stripped(reader.header()[column]));
  if (table.image_column.empty() || table.image_column == name) return;
  const auto is_there = [&](std::string_view ending) {
    return IsFile(folder + "/" + PathBelow(folder, name).append(ending));
  };
  if (!is_there("") && std::ranges::none_of(AllImageExtensions(), is_there)) return;
  reader.Fail(1, "it names the image " + Shown(name) + ", and names of columns are expected",
              "write a first line with them, such as image,label");
}

struct ImageRow {
  int64_t line = 0;
  std::string path;                 // below the folder
  std::vector<std::string> labels;  // as they are written, by column
  std::string label;                // all of them
  std::string split, group;         // empty without such a column
};

class ImageRows {
 public:
  // `reader` must outlive this object, and `folder` has the images.
  ImageRows(TableReader& reader, const LabelTable& table, const std::string& folder, LabelKind kind)
      : reader_(reader), folder_(folder), columns_(FindColumns(reader, table, kind)) {
    std::vector<size_t> selected = columns_.labels;
    selected.push_back(columns_.image);
    if (columns_.split) selected.push_back(*columns_.split);
    if (columns_.group) selected.push_back(*columns_.group);
    reader.Select(std::move(selected));
    if (columns_.cells.are_lists) reader.TakeLists(0, columns_.cells.separator);
  }

  const ImageColumns& columns() const { return columns_; }

  // Reads the next row; returns false at the end. Throws DataError if it is not complete, or says something else than
  // an earlier row of the same image.
  bool Next(ImageRow& row) {
    if (!reader_.Next(cells_)) return false;
    row = {.line = cells_.line, .path = {}, .labels = std::move(cells_.cells), .label = {}, .split = {}, .group = {}};
    for (std::string& cell : row.labels) cell = std::string(Stripped(cell));
    const auto take = [&row] {
      std::string last = std::move(row.labels.back());
      row.labels.pop_back();
      return last;
    };
    if (columns_.group) row.group = take();
    if (columns_.split) row.split = take();
    const std::string image = take();
    row.path = PathBelow(folder_, image);
    row.label = columns_.cells.by_column ? LabelsThatHold(row.labels, columns_.labels, reader_, row.line)
                                         : Joined(row.labels, ",");
    if (image.empty()) reader_.Fail(row.line, "no image is named", "every row names one");
    if (row.path.empty()) {
      reader_.Fail(row.line, "'" + Shown(image) + "' leads out of the folder of the images, " + Shown(folder_),
                   "name a folder that all images are in with --data_dir");
    }
    if (columns_.split && row.split.empty()) {
      reader_.Fail(row.line, "the split of the image is empty", "write train, val, test or a name of your own");
    }
    const FirstRow own{row.line, row.label, row.split};
    const auto [first, is_first] = first_.try_emplace(row.path, own);
    if (!is_first) RequireSame(row.path, first->second, own);
    return true;
  }

  // After the last row: throws DataError if the rows that name an image with and without its ending differ.
  void RequireSame(const std::string& without_ending, const std::string& path) const {
    const auto other = first_.find(path);
    if (other == first_.end()) return;
    const FirstRow &a = first_.at(without_ending), &b = other->second;
    a.line < b.line ? RequireSame(path, a, b) : RequireSame(path, b, a);
  }

 private:
  struct FirstRow {
    int64_t line = 0;
    std::string label, split;
  };

  void RequireSame(const std::string& path, const FirstRow& first, const FirstRow& row) const {
    const bool other_label = first.label != row.label;
    if (!other_label && first.split == row.split) return;
    const auto shown = [](const std::string& text) { return "'" + Shown(text, 60) + "'"; };
    reader_.Fail(row.line,
                 std::string("the ") + (other_label ? "label" : "split") + " of " + Shown(path) + " is " +
                     shown(other_label ? row.label : row.split) + ", but " +
                     shown(other_label ? first.label : first.split) + " in line " + std::to_string(first.line),
                 other_label ? "give each image one row; if it has several labels, they are in one row, too "
                               "(--task=image_multilabel)"
                             : "take one of the rows away: what has been learned says nothing in validation");
  }

  TableReader& reader_;
  const std::string& folder_;
  const ImageColumns columns_;
  TableRow cells_;
  std::unordered_map<std::string, FirstRow> first_;  // by path
};

// Adds the labels of a row. Throws DataError if they are not of the kind.
void AddLabels(const ImageRow& row, LabelKind kind, const std::string& separator, const std::string& where,
               WrittenLabels& written) {
  if (kind == LabelKind::kSeveral) return written.AddSeveral(row.label, separator, where);
  for (const std::string& label : row.labels) {
    if (label.empty()) throw DataError(where + ": the label is empty", "every image needs a label");
    kind == LabelKind::kClass ? written.Add(label, where) : written.AddNumber(label, where);
  }
}

struct TablePaths {
  std::vector<std::string> paths;
  std::vector<int64_t> lines;    // likewise by row
  std::vector<uint8_t> endings;  // likewise: bytes of the ending that FindFiles has added

  // Returns the sizes of the files, after it has completed names without ending.
  std::vector<uint64_t> FindFiles(const std::string& folder, const TableReader& reader) {
    std::vector<uint64_t> sizes(paths.size());
    std::vector<uint8_t> missing(paths.size());
    endings.resize(paths.size());
    InParallel(paths.size(), [&](size_t i) {
      PathStatus status = Stat(folder + "/" + paths[i]);
      if (status.kind == PathKind::kNothing && !IsImage(paths[i])) {
        for (const std::string_view ending : AllImageExtensions()) {
          const PathStatus with_ending = Stat(folder + "/" + paths[i] + std::string(ending));
          if (with_ending.kind != PathKind::kFile) continue;
          paths[i] += ending;
          endings[i] = static_cast<uint8_t>(ending.size());
          status = with_ending;
          break;
        }
      }
      missing[i] = status.kind != PathKind::kFile;
      sizes[i] = status.bytes;
    });
    const auto first = std::ranges::find(missing, 1);
    if (first == missing.end()) return sizes;
    const auto row = static_cast<size_t>(first - missing.begin());
    const auto others = std::ranges::count(missing, 1) - 1;
    reader.Fail(lines[row],
                "there is no image " + Shown(folder + "/" + paths[row]) +
                    (others > 0 ? ", nor those of " + CountOf(others, "further row") : ""),
                "names of images are paths below --data_dir, or without it below the table's folder: correct them, or "
                "take rows of images away that do not exist");
  }
};

// Makes a group of the rows of one image: what is learned would say nothing in another part of its split. Throws
// DataError if --group_column has several groups for it.
void GroupTwins(const TablePaths& images, const TableReader& reader, std::vector<std::string>& groups) {
  const std::vector<std::string> given = groups;
  std::unordered_map<std::string_view, size_t> first;
  for (size_t row = 0; row < images.paths.size(); ++row) {
    const auto [found, is_first] = first.try_emplace(images.paths[row], row);
    if (is_first) continue;
    if (!given.empty() && given[row] != given[found->second]) {
      reader.Fail(images.lines[row],
                  "the group of " + Shown(images.paths[row]) + " is '" + Shown(given[row], 60) + "', but '" +
                      Shown(given[found->second], 60) + "' in line " + std::to_string(images.lines[found->second]),
                  "an image is in one group: correct the column of --group_column");
    }
    groups.resize(images.paths.size());
    std::string& group = groups[found->second];
    if (group.empty()) group = images.paths[row];
    groups[row] = group;
  }
}

// Returns the names of the classes, or of the columns of numbers. Throws DataError if they are not the known ones.
std::vector<std::string> NamesOf(const WrittenLabels& written, std::vector<std::string> columns, LabelKind kind,
                                 const LabelTable& table, const Classes& known) {
  std::vector<std::string> names = std::move(columns);
  if (names.empty()) {
    names = ClassesOf(written.seen, {.names = known.names, .listed = ListedClasses(FolderOf(table.path))});
  } else if (kind == LabelKind::kSeveral && !known.names.empty()) {
    if (SortedClasses(names) != SortedClasses(known.names)) {
      throw DataError(table.path + ": the labels are " + NamesForPeople(names) + ", but the training data has " +
                          NamesForPeople(known.names),
                      "name the same columns with --label_column");
    }
    names = known.names;
  } else if (names != known.names && SortedClasses(names) == SortedClasses(known.names)) {
    throw DataError(table.path + ": the numbers are " + NamesForPeople(names) + ", but in the training data " +
                        NamesForPeople(known.names),
                    "name the columns with --label_column in that order");
  }
  if (names.empty()) throw DataError(table.path + ": no image has a label", "check --label_column");
  const auto count = static_cast<int64_t>(names.size());
  const int64_t expected = known.names.empty() ? known.count : static_cast<int64_t>(known.names.size());
  if (expected == 0 || expected == count) return known.names.empty() ? names : known.names;
  throw DataError(table.path + " has " + CountOf(count, kind == LabelKind::kNumbers ? "number" : "label") +
                      ", but the model or the training data has " + std::to_string(expected),
                  "check --label_column");
}

}  // namespace

char DelimiterNamed(const std::string& word) {
  return word == "comma" ? ',' : word == "semicolon" ? ';' : word == "tab" ? '\t' : '\0';
}

std::vector<std::string> SplitsIn(const LabelTable& table) {
  TableFile file(table.path, table.delimiter);
  const auto column = SplitColumn(ColumnFinder(file.reader()), table);
  if (!column) return {};
  file.reader().Select({*column});
  std::vector<std::string> splits;
  std::set<std::string, std::less<>> known;  // as many as there are rows, if another column was named
  TableRow row;
  while (file.reader().Next(row)) {
    const std::string_view name = Stripped(row.cells[0]);
    if (known.emplace(name).second) splits.emplace_back(name);
  }
  return splits;
}

bool HasSplit(const LabelTable& table, const std::string& split) {
  const std::vector<std::string> splits = SplitsIn(table);
  if (splits.empty()) return ShortestSplitName(split) == "train";
  return std::ranges::any_of(splits, [&split](const std::string& name) { return IsOfSplit(name, split); });
}

ImageTable::ImageTable(const LabelTable& table, const std::string& folder, const std::string& split, LabelKind kind,
                       const Classes& known)
    : folder_(folder.empty() ? FolderOf(table.path) : folder), kind_(kind) {
  TableFile file(table.path, table.delimiter);
  TableReader& reader = file.reader();
  ImageRows rows(reader, table, folder_, kind);
  const ImageColumns& columns = rows.columns();
  RequireNamesIn(reader, columns.image, table, folder_);
  Sha256 hash;
  WrittenLabels written;
  TablePaths images;
  ImageRow row;
  while (rows.Next(row)) {
    if (columns.split && !IsOfSplit(row.split, split)) continue;
    AddLabels(row, kind, columns.cells.separator, reader.name() + " line " + std::to_string(row.line), written);
    hash.UpdateText(row.path).UpdateText(row.label);
    images.paths.push_back(std::move(row.path));
    images.lines.push_back(row.line);
    if (columns.group) groups_.push_back(std::move(row.group));
  }
  if (images.paths.empty()) {
    const std::string column = columns.split ? "the column '" + reader.header()[*columns.split] + "' of " : "";
    const std::vector<std::string> splits = SplitsIn(table);
    if (splits.empty()) throw DataError(table.path + " has no rows", "it needs a row for each image");
    throw DataError(column + table.path + " has no '" + split + "'; it has " + NamesForPeople(splits),
                    "name one of these with --train_split or --val_split");
  }

  std::vector<std::string> column_names;
  if (kind == LabelKind::kNumbers || columns.cells.by_column) {
    for (const size_t column : columns.labels) column_names.emplace_back(Stripped(reader.header()[column]));
    if (std::ranges::find(column_names, "") != column_names.end()) {
      throw DataError(table.path + ": a column of labels has no name", "name each column in the first line");
    }
  }
  names_ = NamesOf(written, std::move(column_names), kind, table, known);
  std::map<std::string_view, int32_t> class_of;
  for (const std::string& name : names_) class_of.emplace(name, static_cast<int32_t>(class_of.size()));
  for (const int32_t label : written.labels) {
    classes_.push_back(class_of.at(written.seen[static_cast<size_t>(label)].name));
  }
  class_ends_ = std::move(written.ends);
  numbers_ = std::move(written.numbers);
  for (const uint64_t bytes : images.FindFiles(folder_, reader)) hash.UpdateInteger(static_cast<int64_t>(bytes));
  for (size_t i = 0; i < images.paths.size(); ++i) {
    const std::string& path = images.paths[i];
    if (images.endings[i] > 0) rows.RequireSame(path.substr(0, path.size() - images.endings[i]), path);
    paths_ += path;
    ends_.push_back(paths_.size());
  }
  GroupTwins(images, reader, groups_);
  fingerprint_ = hash.Hex();
}

int64_t ImageTable::Label(int64_t index) const {
  return kind_ == LabelKind::kClass ? classes_[static_cast<size_t>(index)] : -1;
}

void ImageTable::Targets(int64_t index, std::span<float> targets) const {
  if (targets.empty()) return;
  const auto row = static_cast<size_t>(index);
  if (kind_ == LabelKind::kNumbers) {
    std::ranges::copy_n(numbers_.begin() + static_cast<ptrdiff_t>(row * targets.size()),
                        static_cast<ptrdiff_t>(targets.size()), targets.begin());
    return;
  }
  std::ranges::fill(targets, 0.0F);
  for (uint64_t i = row == 0 ? 0 : class_ends_[row - 1]; i < class_ends_[row]; ++i) {
    targets[static_cast<size_t>(classes_[i])] = 1;
  }
}

std::vector<uint8_t> ImageTable::Read(int64_t index) const {
  return ReadWholeFile(Place(index).file, kMostRecordBytes);
}

std::string ImageTable::PathOf(size_t row) const {
  const uint64_t begin = row == 0 ? 0 : ends_[row - 1];
  return paths_.substr(begin, ends_[row] - begin);
}

}  // namespace dtrain::data
