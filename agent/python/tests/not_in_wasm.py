"""The tests of the kernel that the runtime `wasm` does not pass, with the reason of each.

The other tests run in both runtimes: see harness.py.
"""

THREADS = "runtime wasm has no threads"
PROCESSES = "runtime wasm has no other processes"
LIBRARIES = "runtime wasm has only the standard library"
DESCRIPTORS = "the descriptors of a guest are not those of its process"
PACKAGES = "runtime wasm has no packages: pip is a process"
OTHER_PYTHON = "the test compares with the interpreter that runs it, which is another version"

# The end of a test's or of a test case's id -> why it is skipped.
REASONS = {
    "Packages": PACKAGES,
    "Exceptions.test_exception_groups_show_no_kernel_frames": OTHER_PYTHON,
    "Exceptions.test_traceback_is_what_python_prints": OTHER_PYTHON,
    "Exceptions.test_the_kernel_reports_that_memory_is_used_up": "test_wasm.py has it: there are no rlimits",
    "Completion.test_completes_modules_without_importing_them": "the standard library is in memory, in no directory",
    "Script.test_modules_beside_the_file_are_found_from_any_directory": "a guest has no directory /",
    "Parts.test_parts_are_loaded_when_they_are_needed": "a component has more parts loaded from the start",
    "Parts.test_the_kernel_loads_no_further_modules": "a component has modules in C loaded from the start",
    "Processes.test_the_kernel_ends_when_its_process_is_broken": DESCRIPTORS,
    "AuditEvents.test_denied_events_raise_in_libraries_too_but_imports_go_on": PROCESSES,
    "AuditEvents.test_events_of_the_execution_are_counted": "a guest has no /dev/null",
    "NoWork": OTHER_PYTHON,
    "test_tools": "runtime wasm has no tools",
}
NEED_THREADS = """
    Processes.test_a_closed_control_socket_ends_the_kernel
    Display.test_a_thread_can_display
    Budget.test_threads_have_no_budget
    Work.test_threads_count_together
    Sources.test_thread_tracebacks_have_lines
    Streams.test_threads_print_between_executions
"""
NEED_PROCESSES = """
    Processes.test_a_child_forked_by_libc_never_answers
    Processes.test_a_forked_child_never_answers
    Processes.test_a_grandchild_keeps_its_own_descriptor_three
    Processes.test_children_do_not_hold_the_control_socket
    Processes.test_multiprocessing_works_with_every_start_method
    Display.test_a_forked_child_prints_its_displays
    Hostile.test_a_method_may_fork
    Variables.test_a_new_kernel_has_none
    Script.test_processes_of_every_start_method_find_main
    Streams.test_one_print_is_one_write
    Streams.test_output_of_c_code_and_children_stays_in_order
    Magics.test_a_command_can_be_interrupted
    Magics.test_capture_collects_what_a_cell_prints_and_shows
    Magics.test_commands_run_in_a_shell
    Magics.test_directories_and_environment
    Magics.test_get_ipython_offers_what_code_for_notebooks_calls
    Magics.test_history_and_tracebacks_show_the_original_source
    Magics.test_programs_run_cells_and_their_failure_is_an_error
    Magics.test_the_output_of_a_command_is_a_list_of_lines
    Magics.test_variables_are_replaced_in_commands_and_the_shells_own_stay
"""
REASONS.update(dict.fromkeys(NEED_THREADS.split(), THREADS))
REASONS.update(dict.fromkeys(NEED_PROCESSES.split(), PROCESSES))


def reason(test, needed):
    """Why a test is skipped in runtime `wasm`; None if it is not."""
    if needed:
        return LIBRARIES
    module, case, name = test.split(".")[-3:]
    keys = (case + "." + name, case, module)
    return next((REASONS[key] for key in keys if key in REASONS), None)
