import java.io.IOException;
import java.net.URI;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/** A local file system that delays each directory listing by a number of milliseconds. */
public class DelayedLocalFileSystem extends LocalFileSystem {
  private static final Queue<String> LISTED = new ConcurrentLinkedQueue<>();

  public DelayedLocalFileSystem() {
    super(new Delayed());
  }

  /** Returns how often this process has listed a path below a directory with this name. */
  public static long listingsBelow(String directory) {
    return LISTED.stream().filter(path -> path.contains("/" + directory + "/")).count();
  }

  /** The raw file system: all listing methods of LocalFileSystem call its listStatus. */
  private static final class Delayed extends RawLocalFileSystem {
    private long milliseconds;

    @Override
    public void initialize(URI uri, Configuration conf) throws IOException {
      super.initialize(uri, conf);
      milliseconds = conf.getLong("splitlib.listing.delay.milliseconds", 0);
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
      LISTED.add(path.toString());
      try {
        Thread.sleep(milliseconds);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new IOException(e);
      }
      return super.listStatus(path);
    }
  }
}
