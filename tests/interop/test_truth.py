"""Each test of this folder leaves a record for docs/truth.md, or is listed here as a test that compares with no
reference."""

import ast
from pathlib import Path

WITHOUT_REFERENCE = {
    "test_a_column_for_each_label_is_the_same", "test_a_limited_validation_of_a_large_set_ranks_all_that_it_takes",
    "test_a_file_without_checksums", "test_a_folder_of_transformers_tells_the_model_and_how_it_sees_images",
    "test_a_name_whose_arithmetic_is_another", "test_a_published_tagger_may_have_a_pooler", "test_a_nan_on_one_rank_skips_the_step_on_all",
    "test_a_table_has_no_columns_of_words", "test_words_without_finite_outputs_have_errors",
    "test_a_run_of_weights_that_tell_the_model_goes_on_without_them", "test_a_run_resumes_and_has_the_same_bits_on_more_ranks",
    "test_columns_mean_sentences_where_there_are_none", "test_a_tagger_begins_a_classifier", "test_a_tokenizer_of_other_weights_is_refused",
    "test_bad_input_is_refused_in_one_sentence", "test_bad_input_is_said_in_one_sentence", "test_damage_is_named",
    "test_its_command_trains_on_its_files", "test_rows_without_tokens", "test_lighting_follows_the_first_component", "test_lines_of_many_megabytes",
    "test_long_sentences_lose_no_word", "test_metadata_of_other_programs_is_theirs", "test_names_in_another_wrapper_are_said",
    "test_numbers_are_kept", "test_one_label_and_none_in_validation", "test_programs_are_no_weights",
    "test_the_demo_ends_with_filled_masks", "test_the_grid_of_positions_tells_the_size", "test_the_script_and_its_recipe",
    "test_weights_for_other_classes_are_not_evaluated", "test_weights_of_images_for_text_and_the_reverse_are_named", "test_what_cannot_be_exported_leaves_no_file",
    "test_what_cannot_be_predicted_is_said",
    "test_what_cannot_be_read_has_a_row_with_an_error", "test_what_does_not_fit", "test_what_does_not_fit_is_refused",
    "test_what_was_taken_is_said", "test_with_both_each_batch_draws_one"}


def calls(function: ast.FunctionDef) -> set[str]:
    return {node.func.id for node in ast.walk(function) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def functions_of(path: Path) -> dict[str, set[str]]:
    return {node.name: calls(node) for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)}


def test_every_comparison_leaves_a_record():
    named, silent = set(), []
    shared = {name for name, called in functions_of(Path(__file__).with_name("beside_torch.py")).items() if "record" in called}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path.name == Path(__file__).name:
            continue
        functions = functions_of(path)
        recording = {name for name, called in functions.items() if called & {"record", *shared}}
        for name in sorted(name for name in functions if name.startswith("test_")):
            leaves = name in recording or bool(functions[name] & recording)
            named.add(name)
            if leaves == (name in WITHOUT_REFERENCE):
                silent.append(f"{path.name}: {name}")
    assert not silent, "a test leaves no record (tests/truth.py), or is named above although it does"
    assert WITHOUT_REFERENCE <= named
