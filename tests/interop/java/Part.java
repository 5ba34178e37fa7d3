import java.util.List;

/**
 * Steps of one subject.
 *
 * @param name what {@code run NAME} runs
 * @param claim what its steps are about
 */
record Part(String name, String claim, List<Step> steps) { }
